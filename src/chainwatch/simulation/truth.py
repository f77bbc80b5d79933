"""Questions about what really happened, for the invariants: no source of Slurm is asked, only the runs themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from chainwatch.model.checkpoint import Status
from chainwatch.model.job import JobState
from chainwatch.simulation.runs import Run
from chainwatch.simulation.training import Start, Trainer, Training

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two runs of one chain at the same time."""

    first: Run
    second: Run
    since: float
    until: float


def runs_of(script: str, runs: Iterable[Run]) -> list[Run]:
    """The runs of one script, in order of their start."""
    return sorted((r for r in runs if r.script == script), key=lambda r: r.started)


def overlaps(runs: Sequence[Run], until: Callable[[Run], float | None]) -> list[Overlap]:
    """Pairs of runs that were there at the same time; `until` says when a run was over (None: not yet)."""
    found = []
    for a, b in combinations(sorted(runs, key=lambda r: r.started), 2):
        end_a, end_b = (_NEVER if (e := until(r)) is None else e for r in (a, b))
        if b.started < min(end_a, end_b):
            found.append(Overlap(a, b, b.started, min(end_a, end_b)))
    return found


def running_together(runs: Sequence[Run]) -> list[Overlap]:
    """Pairs that Slurm ran at the same time: the second began before the first had ended for the controller."""
    return overlaps(runs, lambda run: run.stopped)


def holding_together(runs: Sequence[Run]) -> list[Overlap]:
    """Pairs that held nodes at the same time, COMPLETING included."""
    return overlaps(runs, lambda run: run.released)


def writing_together(runs: Sequence[Run]) -> list[Overlap]:
    """Pairs whose processes lived at the same time, those that outlived their node included."""
    return overlaps(runs, lambda run: run.silent)


def outlived_node(run: Run) -> bool:
    """Its processes went on after Slurm had given them up with their node."""
    return run.state is JobState.NODE_FAIL and run.released is not None and (run.silent or _NEVER) > run.released


def starts(training: Training) -> list[tuple[Trainer, Start]]:
    """What every run of a training resumed from, oldest first; runs that died before they chose are left out."""
    return [(t, t.start_of) for t in training.trainers if t.start_of is not None]


def bad_starts(training: Training) -> list[tuple[Trainer, Start]]:
    """Runs that resumed from a checkpoint that was not intact although an intact one existed, or began at step 0
    although some checkpoint existed."""
    return [(t, s) for t, s in starts(training) if _bad(s)]


def _bad(start: Start) -> bool:
    if start.path is None:
        return start.some_existed
    return start.status is not Status.INTACT and start.best is not None


def lost_steps(training: Training) -> int:
    """Training steps that were done and had to be done again, over all runs."""
    lost, reached = 0, 0
    for trainer, start in starts(training):
        lost += max(0, reached - start.step)
        reached = max(start.step, trainer.step)
    return lost


def alive(runs: Iterable[Run], time: float) -> list[Run]:
    """Runs that hold nodes at a moment."""
    return [r for r in runs if r.holds_nodes_at(time)]
