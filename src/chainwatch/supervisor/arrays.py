"""Arrays: which one a chain's jobs belong to, and whether tasks of it may have come and gone unseen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from chainwatch.model.chain import Attempt, ChainState
from chainwatch.model.job import Job
from chainwatch.store.records import ChainRecord

_BEFORE = timedelta(minutes=1)
"""Clocks of the login node and of the controller differ."""


def array_of(record: ChainRecord, attempts: Sequence[Attempt]) -> tuple[int | None, str | None]:
    """The array of the chain's newest submission, and which task of it is the chain (None: all of them, one by one)."""
    fact = record.facts.get("array")
    if isinstance(fact, Mapping) and fact.get("id") is not None:
        return int(fact["id"]), None if fact.get("task") is None else str(fact["task"])
    return (attempts[-1].job.array_job_id if attempts else None), None


def unwatched(record: ChainRecord, attempts: Sequence[Attempt], jobs: Iterable[Job]) -> list[datetime]:
    """Since when accounting must be asked for tasks of the chain's array, if at all.

    No task of it lives, and what became of the newest known one is not judged yet (or none was ever seen): a controller
    that forgets quickly, or a daemon that was away, may have missed those that came after it.
    """
    array, _ = array_of(record, attempts)
    if array is None or any(j.array_job_id == array and not j.state.terminal for j in jobs):
        return []
    seen = [a for a in attempts if a.job.array_job_id == array]
    if not seen:
        return [record.created - _BEFORE] if record.state in _WAITING_FOR_IT else []
    return [seen[-1].job.attempt.submitted - _BEFORE] if seen[-1].verdict is None else []


_WAITING_FOR_IT = frozenset({ChainState.NEW, ChainState.PENDING, ChainState.RECOVERING})
