"""The odd one out: named where one differs, sure only where no healthy run looks so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.diagnosis.probe import judge, named_by_all
from chainwatch.model.probe import Fault, Finding, Gpu, NodeLook, Odd, ProbeReport, Rank, RankState, StepUsage

AT = datetime(2026, 3, 1, tzinfo=UTC)
RUNS, IDLE, STOPPED, TRACED, BLOCKED, GONE = RankState


def job(*states: str, nodes: int = 2, spin: float = 1.0, world: int = 0) -> ProbeReport:
    """A report of ranks spread evenly over nodes, one letter each; `.`: it is not there."""
    letters = {"r": RUNS, "i": IDLE, "t": STOPPED, "g": TRACED, "d": BLOCKED, "x": GONE}
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
        ("rrirrrrr", Odd.RANK_IDLE, ("n1",), (2,), False),  # it waits for a service that grades samples
        ("rrrgrrrr", Odd.NONE, (), (), False),  # a person debugs it
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


def test_a_single_process_has_nothing_to_differ_from() -> None:
    for letter in "ritd":
        finding = judge(job(letter, nodes=1), AT)
        assert (finding.odd, finding.sure) == (Odd.NONE, False)


def test_the_launcher_and_other_steps_are_not_compared_with_the_ranks() -> None:
    report = job("rrrrrrrr")
    other = Rank(0, "1", 9, "tensorboard", IDLE, 0.0, 0, "", 1, 1)
    first = replace(report.nodes[0], ranks=(*report.nodes[0].ranks, other))
    assert judge(replace(report, nodes=(first, report.nodes[1])), AT).odd is Odd.NONE


def faulty(text: str, ago: float = 60, **more: object) -> ProbeReport:
    report = job("rrrrrrrr")
    sick = replace(report.nodes[1], faults=(Fault(ago, text),), **more)  # type: ignore[arg-type]
    return replace(report, nodes=(report.nodes[0], sick))


@pytest.mark.parametrize(
    ("text", "ago", "odd", "sure"),
    [
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", 60, Odd.GPU_FAULT, True),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", 1500, Odd.GPU_FAULT, True),
        (
            "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
            90_000,
            Odd.NONE,
            False,
        ),  # it lived on for a day
        ("NVRM: Xid (PCI:0000:41:00): 13, Graphics Exception: ESR", 60, Odd.NONE, False),  # the program's own fault
        ("NVRM: Xid (PCI:0000:41:00): 9999, unheard of", 60, Odd.GPU_FAULT, False),
        ("amdgpu 0000:63:00.0: 1 uncorrectable hardware errors detected in umc block", 60, Odd.GPU_FAULT, True),
        ("amdgpu 0000:63:00.0: ring comp_1.0.0 timeout", 60, Odd.GPU_FAULT, False),
    ],
)
def test_a_gpu_fault_is_sure_where_it_is_of_the_hardware_and_came_with_the_silence(
    text: str, ago: float, odd: Odd, sure: bool
) -> None:
    finding = judge(faulty(text, ago), AT, timedelta(minutes=20))
    assert (finding.odd, finding.sure) == (odd, sure)
    assert finding.nodes == (("n2",) if odd is Odd.GPU_FAULT else ())


def test_ecc_errors_are_named_and_may_be_older_than_the_job() -> None:
    finding = judge(faulty("", gpus=(Gpu(0, 100, 0), Gpu(3, 100, 2))), AT)
    assert (finding.odd, finding.nodes, finding.sure) == (Odd.GPU_FAULT, ("n2",), False)
    assert "GPU 3" in finding.sentence


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
