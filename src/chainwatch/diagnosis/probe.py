"""Which rank or node is the odd one out? A look at a silent job's processes, judged. Pure.

Ranks of a parallel program do the same things: in a hang most of them wait, and the one they wait for differs. What a
healthy run may look like too (one rank saves, or waits for a service, while the others wait at a barrier; all but one
have ended; storage is slow) is named, and never `sure`: no job is ended for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median

from chainwatch.model.probe import Finding, NodeLook, Odd, ProbeReport, Rank, RankState
from chainwatch.model.text import some
from chainwatch.signatures.xid import kind_of

_SPINS = 0.5
"""Processors that ranks use which wait busily (NCCL, MPI)."""
_GROWS = 0.2
"""Processor seconds a second by which sstat must see an average task grow, before one that does not grow is odd."""
_WORKING_GPU, _IDLE_GPU = 50, 5
"""Per cent."""
_BEFORE = timedelta(minutes=10)
"""A GPU fault may come this long before the silence that it causes: the other ranks' next collective."""
_XID = re.compile(r"NVRM: Xid \(.*?\): *(\d+)")


def judge(report: ProbeReport, at: datetime, silent: timedelta = timedelta(0)) -> Finding:
    """What the report means; `at`: when it was taken, `silent`: for how long the job had been silent then."""
    if report.refused:
        return _of_usage(report, at)
    scene = _Scene(report, silent)
    for rule in _RULES:
        finding = rule(scene, at)
        if finding is not None:
            return finding
    return Finding(at, Odd.NONE, _alike(scene))


def named_by_all(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The nodes that all of these findings name for the same reason, each of them surely; empty if there are none."""
    if not findings or len({f.odd for f in findings}) > 1 or not all(f.sure for f in findings):
        return ()
    shared = set(findings[0].nodes).intersection(*(f.nodes for f in findings[1:]))
    return tuple(sorted(shared))


class _Scene:
    """The report, as the rules ask for it: the ranks of the largest step."""

    def __init__(self, report: ProbeReport, silent: timedelta) -> None:
        self.report = report
        self.lately = (silent + _BEFORE).total_seconds()
        steps = Counter(rank.step for look in report.nodes for rank in look.ranks)
        self.step = max(sorted(steps), key=lambda name: steps[name], default="")
        self.placed = [
            (look.node, rank)
            for look in report.nodes
            for rank in look.ranks
            if rank.step == self.step and rank.state is not RankState.GONE
        ]
        self.ranks = [rank for _, rank in self.placed]
        self.world = max(
            (rank.world for look in report.nodes for rank in look.ranks if rank.step == self.step), default=0
        )
        self.whole = [look for look in report.nodes if not look.problem]

    def in_state(self, state: RankState) -> list[tuple[str, Rank]]:
        return [(node, rank) for node, rank in self.placed if rank.state is state]

    def minority(self, some: Sequence[object]) -> bool:
        """There are some, and most ranks are not among them."""
        return 0 < len(some) * 2 < len(self.ranks)


def _gpu_fault(scene: _Scene, at: datetime) -> Finding | None:
    """Some nodes have a fault, the others have none. Sure is a fault of the hardware that came with the silence."""
    found = {look: fault for look in scene.report.nodes if (fault := _fault(scene, look)) is not None}
    if not found or (len(found) == len(scene.report.nodes) and len(found) > 1):
        return None
    worst = any(sure for _, sure in found.values())
    looks = [look for look, (_, sure) in found.items() if sure or not worst]
    nodes = tuple(look.node for look in looks)
    ranks = tuple(r.number for look in looks for r in look.ranks if r.step == scene.step)
    return Finding(at, Odd.GPU_FAULT, f"{_names(nodes)}: {found[looks[0]][0]}", nodes, ranks, sure=worst)


def _fault(scene: _Scene, look: NodeLook) -> tuple[str, bool] | None:
    """The node's fault in words, and whether it is surely one of the hardware."""
    lately = [(each.text, _kind(each.text)) for each in look.faults if each.ago <= scene.lately]
    for wanted in ("hardware", "either"):
        if told := next((text for text, kind in lately if kind == wanted), ""):
            return f"the kernel says `{told}`", wanted == "hardware"
    bad = next((gpu for gpu in look.gpus if gpu.ecc), None)
    return (f"GPU {bad.index} has {bad.ecc} uncorrected ECC errors", False) if bad is not None else None


def _kind(text: str) -> str:
    xid = _XID.search(text)
    if xid is not None:
        return kind_of(int(xid[1]), text)
    return "hardware" if "uncorrectable" in text else "either"


def _gone(scene: _Scene, at: datetime) -> Finding | None:
    """Fewer ranks than there should be. The few that are left of many may be what a run ends with: never sure."""
    here = {look.node: [r for n, r in scene.placed if n == look.node] for look in scene.whole}
    should = {
        look.node: max((r.expected_here for r in look.ranks if r.step == scene.step), default=0) for look in scene.whole
    }
    total = len(scene.ranks) + sum(1 for look in scene.report.nodes if look.problem) + len(scene.report.silent)
    if not scene.ranks or not scene.world or total >= scene.world:
        return None
    short = [node for node, ranks in here.items() if (should[node] and len(ranks) < should[node]) or not ranks]
    if not short:
        return None
    present = {rank.number for rank in scene.ranks}
    missing = tuple(n for n in range(scene.world) if n not in present)
    few = len(missing) * 2 < scene.world
    sentence = (
        f"{_ranks(missing)} of {scene.world} {'is' if len(missing) == 1 else 'are'} gone on {_names(short)}, "
        + (f"and the other {len(present)} wait" if few else f"{len(present)} left")
    )
    return Finding(at, Odd.RANK_GONE, sentence, tuple(short), missing, sure=few and not scene.report.silent)


def _traced(scene: _Scene, at: datetime) -> Finding | None:
    traced = scene.in_state(RankState.TRACED)
    if not traced:
        return None
    nodes, ranks = _who(traced)
    return Finding(
        at, Odd.NONE, f"{_ranks(ranks)} on {_names(nodes)} {_is(ranks)} held by a debugger: somebody looks at it"
    )


def _stopped(scene: _Scene, at: datetime) -> Finding | None:
    stopped = scene.in_state(RankState.STOPPED)
    if not stopped:
        return None
    if len(stopped) == len(scene.ranks):
        return Finding(at, Odd.NONE, "all of its processes are stopped (state T): somebody or something suspended them")
    nodes, ranks = _who(stopped)
    sentence = f"{_ranks(ranks)} on {_names(nodes)} {_is(ranks)} stopped (state T), the others are not"
    return Finding(at, Odd.RANK_STOPPED, sentence, nodes, ranks, sure=scene.minority(stopped))


def _blocked(scene: _Scene, at: datetime) -> Finding | None:
    blocked = scene.in_state(RankState.BLOCKED)
    if not blocked:
        return None
    where = next((rank.wait for _, rank in blocked if rank.wait), "")
    inside = f" in {where}" if where else ""
    if len(blocked) == len(scene.ranks):
        return Finding(at, Odd.NONE, f"all ranks wait for storage or a driver (state D){inside}")
    nodes, ranks = _who(blocked)
    sentence = f"{_ranks(ranks)} on {_names(nodes)} {_waits(ranks)} for storage or a driver (state D){inside}"
    return Finding(at, Odd.RANK_BLOCKED, sentence, nodes, ranks)


def _silent(scene: _Scene, at: datetime) -> Finding | None:
    stuck = tuple(look.node for look in scene.report.nodes if look.problem and "in time" in look.problem)
    silent = (*scene.report.silent, *stuck)
    if not silent or len(silent) * 2 >= len(scene.report.nodes) + len(scene.report.silent):
        return None
    says = "gives" if len(silent) == 1 else "give"
    return Finding(at, Odd.NODE_SILENT, f"{_names(silent)} {says} no answer, the other nodes do", silent)


def _idle(scene: _Scene, at: datetime) -> Finding | None:
    """A few do nothing while most wait busily: they are what the others wait for."""
    idle = scene.in_state(RankState.IDLE)
    if not scene.minority(idle) or median(rank.cpu for rank in scene.ranks) < _SPINS:
        return None
    nodes, ranks = _who(idle)
    usual = median(rank.cpu for rank in scene.ranks if rank.state is RankState.RUNS)
    sentence = (
        f"{_ranks(ranks)} on {_names(nodes)} {_does(ranks)} nothing while the others use {usual:.0%} of a core each"
    )
    return Finding(at, Odd.RANK_IDLE, sentence, nodes, ranks)  # it may wait for a service, an upload, a person


def _busy(scene: _Scene, at: datetime) -> Finding | None:
    """A few work while most wait: they may be saving, or evaluating, or stuck in a loop."""
    busy = scene.in_state(RankState.RUNS)
    if not scene.minority(busy) or len(scene.in_state(RankState.IDLE)) * 2 <= len(scene.ranks):
        return None
    nodes, ranks = _who(busy)
    works = "works" if len(ranks) == 1 else "work"
    return Finding(at, Odd.RANK_BUSY, f"only {_ranks(ranks)} on {_names(nodes)} {works}, the others wait", nodes, ranks)


def _gpu_idle(scene: _Scene, at: datetime) -> Finding | None:
    use = {look.node: max(seen) for look in scene.whole if (seen := [g.use for g in look.gpus if g.use is not None])}
    idle = tuple(node for node, most in use.items() if most <= _IDLE_GPU)
    if not idle or len(idle) * 2 >= len(use) or median(use.values()) < _WORKING_GPU:
        return None
    sentence = (
        f"the GPUs of {_names(idle)} do nothing while those of the other nodes are at {median(use.values()):.0f} %"
    )
    return Finding(at, Odd.GPU_IDLE, sentence, idle)


_RULES: tuple[Callable[[_Scene, datetime], Finding | None], ...] = (
    _traced, _gpu_fault, _gone, _stopped, _idle, _blocked, _silent, _gpu_idle, _busy,
)  # fmt: skip
"""What says most comes first."""


def _alike(scene: _Scene) -> str:
    ranks = scene.ranks
    if not ranks:
        problem = next((look.problem for look in scene.report.nodes if look.problem), "")
        return f"the probe saw no rank of it{f': {problem}' if problem else ''}"
    nodes = len({node for node, _ in scene.placed})
    low, high = min(r.cpu for r in ranks), max(r.cpu for r in ranks)
    many = "1 rank" if len(ranks) == 1 else f"{len(ranks)} ranks"
    where = "1 node" if nodes == 1 else f"{nodes} nodes"
    one = f"its {many} on {where} uses {high:.0%} of a core"
    return one if len(ranks) == 1 else f"all {many} on {where} look alike ({low:.0%} to {high:.0%} of a core each)"


def _of_usage(report: ProbeReport, at: datetime) -> Finding:
    """What sstat tells of a job that may not be looked into: a task whose processor time stood still."""
    for before, after in report.usage:
        grown = after.average - before.average
        same = (before.node, before.task) == (after.node, after.task)
        if report.span and after.tasks > 2 and grown >= _GROWS * report.span and same and after.least == before.least:
            sentence = (
                f"rank {after.task} on {after.node} uses no processor time while the others do (sstat; the probe was "
                f"refused: {report.refused})"
            )
            return Finding(at, Odd.RANK_IDLE, sentence, (after.node,), (after.task,))
    looked = "sstat shows no task that differs" if report.usage else "sstat shows nothing either"
    return Finding(at, Odd.NONE, f"the probe could not look: {report.refused}; {looked}")


def _who(placed: Iterable[tuple[str, Rank]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    found = list(placed)
    return tuple(dict.fromkeys(node for node, _ in found)), tuple(sorted(rank.number for _, rank in found))


def _ranks(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def _names(nodes: Sequence[str]) -> str:
    return some(nodes, 4)


def _is(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _does(ranks: Sequence[int]) -> str:
    return "does" if len(ranks) == 1 else "do"


def _waits(ranks: Sequence[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"
