"""What retries were spent, and what they bought.

Budgets count from the last attempt that saved progress (its own end included), or from a person's `retry`: a run that
gets further is healthy, however often it is interrupted, and one that does not is not, whatever interrupts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainwatch.config.models import Recovery
from chainwatch.model.chain import Attempt, History
from chainwatch.model.verdict import Cause, Outcome, Verdict
from chainwatch.recovery.retry import over_before

_INTERRUPTIONS = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.HARDWARE_NODE})


@dataclass(frozen=True, slots=True)
class Budget:
    """Ends since saved progress advanced, by what they cost."""

    window: tuple[Attempt, ...]
    """The attempts that count, oldest first."""
    spent: int
    """Failovers that count towards the total."""
    same_failure: int
    """Of these, the ones with the last end's fingerprint."""
    fruitless_preemptions: int
    """Preemptions among them that saved nothing, whatever else ended between them."""


def judged(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    return tuple(a for a in attempts if a.verdict is not None)


def window(history: History) -> tuple[Attempt, ...]:
    """The attempts that count: from the last one that saved progress, or that ended after a person's `retry`."""
    attempts = judged(history.attempts)
    attempts = tuple(a for a in attempts if not over_before(a, history.retried_at))
    for index in range(len(attempts) - 1, -1, -1):
        if attempts[index].saved_progress:
            return attempts[index:]
    return attempts


def is_free(attempt: Attempt, earlier: tuple[Attempt, ...]) -> bool:
    """Whether this end spends no retry: an interruption that left saved progress, or the first failure of a damaged
    checkpoint (the next job resumes from another one)."""
    verdict = _verdict(attempt)
    if verdict.cause is Cause.PREEMPTION:
        return True  # counted on their own: see `fruitless_preemptions`
    if verdict.cause in _INTERRUPTIONS:
        return attempt.saved_progress
    if verdict.cause is Cause.CHECKPOINT_CORRUPT:
        return not any(
            _verdict(e).cause is Cause.CHECKPOINT_CORRUPT and e.resumed_from == attempt.resumed_from for e in earlier
        )
    return False


def count(history: History) -> Budget:
    """Count what was spent since saved progress last advanced."""
    counted = window(history)
    spent = [a for i, a in enumerate(counted) if not is_free(a, counted[:i])]
    last = counted[-1] if counted else None
    same = 0
    if last is not None and _verdict(last).fingerprint and _tells_itself(_verdict(last)):
        same = sum(1 for a in spent if _verdict(a).fingerprint == _verdict(last).fingerprint)
    return Budget(
        window=counted, spent=len(spent), same_failure=same, fruitless_preemptions=fruitless_preemptions(history)
    )


def fruitless_preemptions(history: History) -> int:
    """Preemptions since progress was last saved that saved nothing."""
    return sum(1 for a in window(history) if _verdict(a).cause is Cause.PREEMPTION and not a.saved_progress)


def _tells_itself(verdict: Verdict) -> bool:
    """Two ends of its fingerprint are one failure. Interruptions that Slurm itself states need not be: dead nodes are all
    alike, and count towards the total."""
    return verdict.outcome not in {Outcome.NODE_FAILED, Outcome.TIMED_OUT, Outcome.PREEMPTED}


def quick_twice(policy: Recovery, attempts: Sequence[Attempt]) -> bool:
    """The last two of these failed in the same way within the first minutes, at the same place."""
    if len(attempts) < 2:
        return False
    first, second = attempts[-2:]
    alike = first.step_after == second.step_after and _verdict(first).fingerprint == _verdict(second).fingerprint
    return alike and all(_is_quick(policy, a) for a in (first, second))


def _is_quick(policy: Recovery, attempt: Attempt) -> bool:
    start, end = attempt.job.start, attempt.ended
    return start is not None and end is not None and end - start <= policy.quick_failure


def _verdict(attempt: Attempt) -> Verdict:
    assert attempt.verdict is not None, "only judged attempts are counted"
    return attempt.verdict
