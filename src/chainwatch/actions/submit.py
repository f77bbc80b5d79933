"""Exactly-once submission: the intent is written first, sbatch is called once, and a doubtful outcome is looked up.

1. Write the intent, with a fresh token and the full command, and commit.
2. sbatch, with the token in the job's comment.
3. Write the job id, and commit.

A crash or a time-out between 1 and 3 leaves an open intent. `look_up` finds the token on the cluster, or finds it surely
absent: only then is the same intent submitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from chainwatch.actions.audit import Audit
from chainwatch.actions.tag import find
from chainwatch.model.job import Job, Snapshot, Source
from chainwatch.slurm.backend import Backend, NoInformation, Refusal, Refused, Submission
from chainwatch.store import Store
from chainwatch.store.records import Intent, IntentKind, IntentStatus, Lease


@dataclass(frozen=True, slots=True)
class Submitted:
    job_id: int


@dataclass(frozen=True, slots=True)
class RefusedBySlurm:
    """An outcome of its own: wait, or a person."""

    why: str
    calls_for: Refusal


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The controller may have accepted the job. The intent stays open and is looked up."""

    why: str


Outcome = Submitted | RefusedBySlurm | Uncertain


def begin(
    store: Store,
    lease: Lease | None,
    chain: str,
    token: str,
    submission: Submission,
    facts: Mapping[str, Any],
    now: datetime,
) -> Intent:
    """Write the intent down. Raises LeaseLost, IntentOpen: then nothing may be submitted."""
    payload = {"submission": asdict(submission), **facts}
    return store.begin_intent(lease, chain, IntentKind.SUBMIT, token, payload, now)


def carry_out(
    store: Store,
    lease: Lease | None,
    audit: Audit,
    backend: Backend,
    intent: Intent,
    now: datetime,
    submitted: Callable[[Intent, int], None],
) -> Outcome:
    """Call sbatch for an open intent, and record what came of it.

    `submitted` writes down whatever else follows from the job's id, in the commit that closes the intent: a closed
    intent whose job nobody looks for would be a lost job.
    """
    submission = _submission(intent.payload)
    intent = store.mark_tried(lease, intent, now)
    audit.note(
        now,
        "sbatch",
        intent.chain,
        token=intent.token,
        script=submission.script,
        options=submission.options,
        args=submission.args,
        environment_names=[name for name, _ in submission.environment],
    )
    try:
        job_id = backend.submit(submission)
    except Refused as e:
        store.close_intent(lease, intent, IntentStatus.REFUSED, now, note=str(e))
        return RefusedBySlurm(str(e), e.calls_for)
    except NoInformation as e:
        return Uncertain(str(e))
    with store.transaction(lease):
        store.close_intent(lease, intent, IntentStatus.DONE, now, job_id=job_id)
        submitted(intent, job_id)
    return Submitted(job_id)


@dataclass(frozen=True, slots=True)
class Found:
    """The job of an open intent is there: adopt it."""

    job: Job


@dataclass(frozen=True, slots=True)
class SurelyAbsent:
    """Both sources answered twice, well after the client's time-out, and none knows the token."""


@dataclass(frozen=True, slots=True)
class StillOpen:
    """Look again."""

    why: str
    counts: bool = False
    """This look was conclusive: one more absent round."""
    lost: bool = False
    """Slurm will never tell: a person has to."""


def look_up(
    intent: Intent, snapshot: Snapshot, now: datetime, settle: timedelta, remembers: timedelta | None = None
) -> Found | SurelyAbsent | StillOpen:
    """What the snapshot says of an intent that was tried. Pure.

    `settle` is how long after the try the token must stay unseen before its absence counts: a frozen controller carries
    out a request of a client that gave up long ago, once it wakes. `remembers` (MinJobAge) is given where the site keeps
    no accounting: only for so long after the try does an absence from the queue prove anything.
    """
    assert intent.tried_at is not None, "an intent that was never tried had no effect"
    job = by_token((*snapshot.jobs, *snapshot.records), intent.token)
    if job is not None:
        return Found(job)
    for source in (Source.QUEUE, Source.ACCOUNTING) if remembers is None else (Source.QUEUE,):
        if not snapshot.knows(source):
            return StillOpen(f"{source} did not answer: {snapshot.failed.get(source, 'not asked')}")
    if remembers is not None and now >= intent.tried_at + remembers:
        return StillOpen("without accounting nobody can say any more whether this job has come and gone", lost=True)
    if now < intent.tried_at + settle:
        return StillOpen("the controller may still carry it out")
    if intent.absent_rounds >= 1:
        return SurelyAbsent()
    return StillOpen("not seen in squeue nor sacct; looked up once more", counts=True)


def by_token(jobs: Iterable[Job], token: str) -> Job | None:
    """The newest job that carries this token, in its comment or in the submit line."""
    matching = [j for j in jobs if (tag := find(j.submit_line, j.comment)) is not None and tag.token == token]
    return max(matching, key=lambda j: j.attempt.submitted, default=None)


def _submission(payload: Mapping[str, Any]) -> Submission:
    raw = payload["submission"]
    return Submission(
        script=raw["script"],
        args=tuple(raw["args"]),
        options=tuple(raw["options"]),
        directory=raw["directory"],
        environment=tuple((k, v) for k, v in raw["environment"]),
        umask=raw["umask"],
    )
