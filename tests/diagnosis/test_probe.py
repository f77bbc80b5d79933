"""The odd one out: named where one differs, sure only where no healthy run looks so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chainwatch.diagnosis.probe import judge, named_by_all
from chainwatch.model.probe import Finding, Gpu, NodeLook, Odd, ProbeReport, Rank, RankState, StepUsage

AT = datetime(2026, 3, 1, tzinfo=UTC)
RUNS, IDLE, STOPPED, BLOCKED, GONE = RankState


def job(*states: str, nodes: int = 2, spin: float = 1.0, world: int = 0) -> ProbeReport:
    """A report of ranks spread evenly over nodes: `r` runs, `i` idle, `t` stopped, `d` blocked, `x` gone, `.` missing."""
    letters = {"r": RUNS, "i": IDLE, "t": STOPPED, "d": BLOCKED, "x": GONE}
    word = "".join(states)
    each = len(word) // nodes
    looks = []
    for node in range(nodes):
        ranks = tuple(
            Rank(n, "0", 100 + n, "python", letters[c], spin if c == "r" else 0.0, 0, "", each, world or len(word))
            for n in range(node * each, (node + 1) * each)
            if (c := word[n]) != "."
        )
        looks.append(NodeLook(f"n{node + 1}", ranks))
    return ProbeReport(tuple(looks))


@pytest.mark.parametrize(
    ("ranks", "odd", "nodes", "numbers", "sure"),
    [
        ("rrrrrrrr", Odd.NONE, (), (), False),
        ("iiiiiiii", Odd.NONE, (), (), False),
        ("dddddddd", Odd.NONE, (), (), False),  # the storage stands still for all
        ("tttttttt", Odd.NONE, (), (), False),  # somebody suspended it
        ("rrrrr.rr", Odd.RANK_GONE, ("n2",), (5,), True),
        ("rrrrrxrr", Odd.RANK_GONE, ("n2",), (5,), True),
        ("iiii....", Odd.RANK_GONE, ("n2",), (4, 5, 6, 7), False),
        ("r.......", Odd.RANK_GONE, ("n1", "n2"), (1, 2, 3, 4, 5, 6, 7), False),  # rank 0 exports the model at the end
        ("rrrrrtrr", Odd.RANK_STOPPED, ("n2",), (5,), True),
        ("itiiiiii", Odd.RANK_STOPPED, ("n1",), (1,), True),
        ("rrirrrrr", Odd.RANK_IDLE, ("n1",), (2,), True),
        ("rriiiiii", Odd.RANK_BUSY, ("n1",), (0, 1), False),  # two evaluate, or save
        ("riiiiiii", Odd.RANK_BUSY, ("n1",), (0,), False),
        ("drrrrrrr", Odd.RANK_BLOCKED, ("n1",), (0,), False),  # it writes to slow storage
    ],
)
def test_the_one_that_differs_is_named_and_sure_only_where_no_healthy_run_looks_so(
    ranks: str, odd: Odd, nodes: tuple[str, ...], numbers: tuple[int, ...], sure: bool
) -> None:
    finding = judge(job(ranks), AT)
    assert (finding.odd, finding.nodes, finding.ranks, finding.sure) == (odd, nodes, numbers, sure), finding.sentence
    assert finding.sentence


def test_a_rank_that_still_moves_bytes_or_computes_a_little_is_never_surely_odd() -> None:
    report = job("rrirrrrr")
    for change in ({"moved": 5000}, {"cpu": 0.01}):
        ranks = tuple(replace(r, **change) if r.state is IDLE else r for r in report.nodes[0].ranks)  # type: ignore[arg-type]
        finding = judge(replace(report, nodes=(replace(report.nodes[0], ranks=ranks), report.nodes[1])), AT)
        assert (finding.odd, finding.sure) == (Odd.RANK_IDLE, False)


def test_a_single_process_has_nothing_to_differ_from() -> None:
    for letter in "ritd":
        finding = judge(job(letter, nodes=1), AT)
        assert (finding.odd, finding.sure) == (Odd.NONE, False)


def test_the_launcher_and_other_steps_are_not_compared_with_the_ranks() -> None:
    report = job("rrrrrrrr")
    other = Rank(0, "1", 9, "tensorboard", IDLE, 0.0, 0, "", 1, 1)
    first = replace(report.nodes[0], ranks=(*report.nodes[0].ranks, other))
    assert judge(replace(report, nodes=(first, report.nodes[1])), AT).odd is Odd.NONE


def test_a_gpu_fault_says_more_than_anything_else() -> None:
    report = job("rrrrrtrr")
    sick = replace(report.nodes[0], gpus=(Gpu(0, 100, 0), Gpu(3, 100, 2)))
    finding = judge(replace(report, nodes=(sick, report.nodes[1])), AT)
    assert (finding.odd, finding.nodes, finding.sure) == (Odd.GPU_FAULT, ("n1",), True)
    sick = replace(report.nodes[1], faults=("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",))
    assert "Xid" in judge(replace(report, nodes=(report.nodes[0], sick)), AT).sentence


def test_gpus_that_a_step_without_gpus_may_not_see_are_no_fault() -> None:
    report = job("rrrrrrrr")
    blind = tuple(replace(look, gpu_problem="nvidia-smi: No devices were found") for look in report.nodes)
    assert judge(replace(report, nodes=blind), AT).odd is Odd.NONE
    some = (replace(report.nodes[0], gpu_problem="No devices were found"), report.nodes[1])
    assert judge(replace(report, nodes=some), AT).odd is Odd.NONE


def test_a_node_whose_gpus_rest_is_named_and_not_surely() -> None:
    use = {"n1": 99, "n2": 98, "n3": 0}
    looks = tuple(replace(look, gpus=(Gpu(0, use[look.node], 0),)) for look in job("rrrrrr", nodes=3).nodes)
    finding = judge(ProbeReport(looks), AT)
    assert (finding.odd, finding.nodes, finding.sure) == (Odd.GPU_IDLE, ("n3",), False)


def test_a_node_that_gives_no_answer_is_named_and_its_ranks_are_not_called_gone() -> None:
    report = job("rrrrrr", nodes=3)
    finding = judge(ProbeReport(report.nodes[:2], silent=("n3",)), AT)
    assert (finding.odd, finding.nodes, finding.sure) == (Odd.NODE_SILENT, ("n3",), False)


def test_sstat_names_a_task_that_stands_still_and_never_surely() -> None:
    def usage(average: float, least: float) -> StepUsage:
        return StepUsage("0", 8, average, least, "n2", 5)

    stuck = ProbeReport(refused="not permitted", usage=((usage(100, 90), usage(110, 90)),), span=10)
    finding = judge(stuck, AT)
    assert (finding.odd, finding.nodes, finding.ranks, finding.sure) == (Odd.RANK_IDLE, ("n2",), (5,), False)
    alive = ProbeReport(refused="not permitted", usage=((usage(100, 90), usage(110, 99)),), span=10)
    assert judge(alive, AT).odd is Odd.NONE


def test_only_what_several_looks_agree_on_surely_is_named_by_all() -> None:
    gone = Finding(AT, Odd.RANK_GONE, "", ("n2", "n3"), sure=True)
    assert named_by_all([gone, replace(gone, nodes=("n2",))]) == ("n2",)
    assert named_by_all([gone, replace(gone, sure=False)]) == ()
    assert named_by_all([gone, replace(gone, nodes=("n4",))]) == ()
    assert named_by_all([gone, replace(gone, odd=Odd.RANK_IDLE)]) == ()
    assert named_by_all([]) == ()
