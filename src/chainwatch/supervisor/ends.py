"""Has this attempt ended? Three answers, drawn from what the sources said and from which of them answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from chainwatch.model.job import AttemptId, Job, JobState, Snapshot, Source


@dataclass(frozen=True, slots=True)
class Alive:
    """The controller lists it in a live state."""

    job: Job


@dataclass(frozen=True, slots=True)
class Ended:
    """A terminal state of this very identity."""

    job: Job
    complete: bool
    """Accounting gave its steps; otherwise they may still come."""
    requeued: bool = False
    """The same id was requeued: a newer attempt exists."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No information, or a contradiction: ask again. Never an end."""

    why: str
    silent: bool
    """A source did not answer (as opposed to: all answered and none knows it)."""
    elsewhere: bool = False
    """It goes on out of sight: another cluster of the federation has it."""


def judge(known: Job, snapshot: Snapshot) -> Alive | Ended | Unknown:
    """What the snapshot says of one attempt.

    Accounting alone may call it ended only if the queue was answered too and does not list it alive: a requeued job keeps
    its id, and accounting keeps saying PREEMPTED or NODE_FAIL of it for a while.
    """
    same_queue = _of(snapshot.jobs, known.attempt)
    same_records = _of(snapshot.records, known.attempt)
    requeued = _newer(snapshot, known.attempt)
    facts = reduce(Job.merged, [*same_queue, *same_records], known)
    listed = same_queue[-1] if same_queue else None
    recorded = same_records[-1] if same_records else None
    if listed is not None and not listed.state.terminal and listed.state is not JobState.UNKNOWN and not requeued:
        return Alive(facts if not facts.state.terminal else listed.merged(known))
    if facts.state is JobState.REVOKED and not requeued:
        return Unknown("its sibling was started by another cluster of the federation", silent=True, elsewhere=True)
    if requeued:
        return Ended(facts, complete=recorded is not None, requeued=True)
    if listed is not None and listed.state.terminal:
        return Ended(facts, complete=recorded is not None and recorded.state.terminal)
    if not snapshot.knows(Source.QUEUE):
        return Unknown(f"squeue did not answer: {snapshot.failed.get(Source.QUEUE, 'not asked')}", silent=True)
    if recorded is not None and recorded.state.terminal:
        return Ended(facts, complete=True)
    if known.state.terminal:
        return Ended(facts, complete=False)  # the controller said so in an earlier poll, and it did not come back
    if not snapshot.knows(Source.ACCOUNTING):
        why = snapshot.failed.get(Source.ACCOUNTING, "not asked")
        return Unknown(f"it left the queue, and accounting did not answer: {why}", silent=True)
    if recorded is not None:
        return Unknown(
            f"it left the queue, and accounting still says {recorded.state}: late, or a runaway record", silent=False
        )
    return Unknown("it left the queue, and accounting has no row of it (yet)", silent=False)


def _of(jobs: Iterable[Job], identity: AttemptId) -> list[Job]:
    return [j for j in jobs if j.attempt == identity]


def _newer(snapshot: Snapshot, identity: AttemptId) -> bool:
    """The same id appears with a later submit time, as a requeue makes it (the caller sees to reused ids)."""
    return any(
        j.job_id == identity.job_id and j.cluster == identity.cluster and j.attempt.submitted > identity.submitted
        for j in (*snapshot.jobs, *snapshot.records)
    )
