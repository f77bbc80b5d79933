"""From an end to a verdict: gather what the attempt left behind, and diagnose it."""

from __future__ import annotations

import pwd
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from chainwatch.config.models import Chain, HandOver
from chainwatch.diagnosis import diagnose
from chainwatch.diagnosis.torn import told_apart
from chainwatch.evidence.end_records import as_recorded
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job, JobState, Snapshot, Source
from chainwatch.model.verdict import Evidence, Progress, Verdict
from chainwatch.recovery.drains import left_drained
from chainwatch.slurm.weaker import Weakness
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.ends import Ended
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.traces import ENDED_BY_US

_WRITERS_GONE = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.PREEMPTED,
        JobState.OUT_OF_MEMORY,
        JobState.DEADLINE,
    }
)
"""Ends that slurmd itself brought about or saw: every process of the job is gone. After a node failure they live on."""


def settle_after(job: Job, settings: Chain) -> timedelta:
    """How long an unfinished checkpoint must not have changed before it counts as incomplete: no time at all where every
    writer is surely gone."""
    if settings.checkpoints is None or job.state in _WRITERS_GONE:
        return timedelta(0)
    if job.state is JobState.REQUEUED and job.preempted_at is not None:
        return timedelta(0)
    return settings.checkpoints.settle


def settle_before_first(settings: Chain) -> timedelta:
    """The same before the chain's first job, when nobody knows who wrote there last. Where chainwatch would change what
    it finds, a writer that may still live is given its time."""
    where = settings.checkpoints
    if where is None or where.hand_over not in {HandOver.POINTER, HandOver.SET_ASIDE}:
        return timedelta(0)
    return where.settle


def judge(
    house: House,
    record: ChainRecord,
    settings: Chain,
    place: Place,
    attempt: Attempt,
    end: Ended,
    snapshot: Snapshot,
    now: datetime,
) -> tuple[Attempt, Evidence] | None:
    """The attempt with its verdict, and the evidence behind it.

    None: storage is silent. Nothing is judged without what it holds: it may prove that the chain is done.
    """
    job = end.job if not end.requeued else replace(end.job, state=_closed(end.job.state))
    left = house.readers.left_behind(place, job, now=now)
    report = house.readers.checkpoints(place, settle=settle_after(job, settings))
    if isinstance(left, Silent) or isinstance(report, Silent):
        return None
    seen = report if isinstance(report, RunReport) else None
    saved = seen.newest_intact.step if seen and seen.newest_intact else None
    step = max((s for s in (left.progress.step, saved) if s is not None), default=None)
    job = as_recorded(job, left.end_records)
    progress: Progress = replace(left.progress, saved_step=saved, step=step)
    loaded = (r.resumed_from for r in left.end_records if r.resumed_from)
    resumed = next(loaded, attempt.resumed_from)  # chosen when it began; what was handed over may have been older
    evidence = Evidence(
        job=job,
        sources=snapshot.answered,
        logs=left.logs,
        progress=progress,
        completion=left.completion,
        nodes=tuple(n for n in snapshot.nodes if n.name in job.nodes),
        checkpoints=seen,
        resumed_from=resumed,
        end_records=left.end_records,
        ended_by_us=str(_fact(record, ENDED_BY_US, job) or ""),
        suspects=tuple(_fact(record, "suspects", job) or ()),
        first_seen_step=attempt.step_before,
        chain_user=house.user,
        user_uid=_uid(house, job.user),
    )
    verdict = diagnose(evidence)
    if Source.ACCOUNTING not in snapshot.answered and not end.complete:
        verdict = replace(verdict, weaker=_weaker(verdict, snapshot))
    verdict = told_apart(
        verdict,
        evidence,
        lambda: [a for a in house.store.attempts(record.name) if a.number < attempt.number],
        lambda earlier: house.store.evidence(record.name, earlier.number),
    )
    saved_after = saved if saved is not None else attempt.saved_before
    judged = replace(
        attempt,
        job=job,
        verdict=verdict,
        ended=job.end or now,
        step_after=progress.step,
        saved_after=saved_after,
        resumed_from=resumed,
        script_digest=_submitted(attempt, attempt.script_digest, left.digest),
        commit=left.commit or attempt.commit,
        drained=left_drained(job, snapshot.nodes),
        image=_submitted(attempt, attempt.image, left.image)
        or next((r.image for r in left.end_records if r.image), ""),
    )
    return judged, evidence


def _weaker(verdict: Verdict, snapshot: Snapshot) -> tuple[str, ...]:
    """What is less sure without accounting's record: because it was silent this time, or because the site keeps none."""
    if snapshot.failed.get(Source.ACCOUNTING) != Weakness.NO_ACCOUNTING.value:
        return (*verdict.weaker, "accounting gave no steps of this job")
    others = (sentence for sentence in verdict.weaker if not sentence.startswith("accounting did not answer"))
    return (*others, f"the site keeps no accounting: {Weakness.NO_ACCOUNTING.value}")


def _submitted(attempt: Attempt, then: str, now: str) -> str:
    """What was noted when we submitted it: the script may have been edited since. Else what the script says now."""
    return then if attempt.ours and attempt.script_digest else now or then


def _fact(record: ChainRecord, name: str, job: Job) -> Any:
    """What the record's fact says of this attempt."""
    by_attempt = record.facts.get(name)
    return by_attempt.get(str(job.attempt)) if isinstance(by_attempt, dict) else None


def _uid(house: House, user: str) -> int | None:
    """Of the job's user: a chain may have adopted somebody else's job."""
    if user in {"", house.user}:
        return house.uid
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _closed(state: JobState) -> JobState:
    """A requeued attempt's row may still show a live word; it is over all the same."""
    return state if state.terminal else JobState.REQUEUED
