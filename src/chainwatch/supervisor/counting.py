"""What an ended attempt adds to the counters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Outcome
from chainwatch.store import Store
from chainwatch.store.counters import Counted, count


def ended(store: Store, chain: str, attempt: Attempt, earlier: Sequence[Attempt]) -> None:
    """Count a judged attempt, once, in the transaction that remembers it. `earlier`: the chain's attempts before it."""
    verdict, job = attempt.verdict, attempt.job
    if verdict is None:
        return
    count(store, Counted.ATTEMPTS_ENDED, chain=chain, outcome=verdict.outcome.value, cause=verdict.cause.value)
    count(store, Counted.LOST_WORK, lost(attempt).total_seconds(), chain=chain)
    if job.start is not None:
        waited = job.start - job.attempt.submitted
        count(store, Counted.QUEUE_WAIT, waited.total_seconds(), chain=chain)
    if verdict.outcome is Outcome.HUNG:
        count(store, Counted.HANGS, chain=chain)
    if any(one.job.job_id == job.job_id for one in earlier):
        count(store, Counted.SUBMISSIONS, chain=chain, kind="requeue")
    elif not attempt.ours:
        count(store, Counted.SUBMISSIONS, chain=chain, kind="other")
    before = [one.ended for one in earlier if one.ended is not None]
    if before:
        gap = job.attempt.submitted - max(before)
        count(store, Counted.DOWNTIME, gap.total_seconds(), chain=chain)


def lost(attempt: Attempt) -> timedelta:
    """Training time that no intact checkpoint holds: the attempt's share of steps after the newest saved one.

    All of its time where it reached steps and saved none of them; nothing where no step is known, or where the chain is
    done: what comes after its last save is its end.
    """
    if attempt.verdict is not None and attempt.verdict.outcome is Outcome.DONE:
        return timedelta(0)
    start, end, reached = attempt.job.start, attempt.ended or attempt.job.end, attempt.step_after
    if start is None or end is None or reached is None:
        return timedelta(0)
    begun = attempt.saved_before if attempt.saved_before is not None else attempt.step_before or 0
    saved = max(begun, attempt.saved_after if attempt.saved_after is not None else begun)
    done = reached - begun
    if done <= 0 or reached <= saved:
        return timedelta(0)
    return (end - start) * ((reached - saved) / done)
