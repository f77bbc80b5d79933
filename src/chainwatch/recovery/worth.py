"""What an attempt's time was worth: how much of it went into steps that a checkpoint kept. Pure.

Slurm tells how long a job held its nodes, and checkpoints tell which steps are safe. What lies between is cost: start-up,
and the steps after the last save that the next job computes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from chainwatch.model.chain import Attempt


def ran(attempt: Attempt) -> timedelta | None:
    """How long it held its nodes; None where start or end is not known."""
    start = attempt.job.start
    if start is None or attempt.ended is None:
        return None
    return max(attempt.ended - start, timedelta(0))


def pace(attempts: Sequence[Attempt]) -> timedelta | None:
    """Time per step: the best that any attempt did over all its time, start-up included. None where none is known.

    The longest attempt mostly gives it, since start-up weighs least there.
    """
    paces = [time / steps for a in attempts if (steps := _reached(a)) > 0 and (time := ran(a))]
    return min(paces, default=None)


def kept(attempt: Attempt, attempts: Sequence[Attempt]) -> timedelta:
    """The time that its newly saved steps are worth, at the pace of the chain; zero where nothing was saved."""
    time, per_step = ran(attempt), pace(attempts)
    if time is None or per_step is None or not attempt.saved_progress:
        return timedelta(0)
    return min(time, per_step * _saved(attempt))


def cost_more_than_it_computed(attempt: Attempt, attempts: Sequence[Attempt]) -> bool:
    """More of its time was lost (start-up, steps that nothing saved) than went into steps that are safe now."""
    if not attempt.saved_progress:
        return True
    time = ran(attempt)
    if time is None or pace(attempts) is None:
        return False  # it saved something, and nothing measures what that took
    worth = kept(attempt, attempts)
    return time - worth > worth


def _reached(attempt: Attempt) -> int:
    """Steps that it computed, saved or not: it began at the newest checkpoint."""
    newest = max((s for s in (attempt.step_after, attempt.saved_after) if s is not None), default=0)
    return newest - (attempt.saved_before or 0)


def _saved(attempt: Attempt) -> int:
    return (attempt.saved_after or 0) - (attempt.saved_before or 0)
