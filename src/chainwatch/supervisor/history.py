"""The past of a chain, as `decide` needs it, from what the store remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from chainwatch.diagnosis.cohorts import Cohort, Failure, part_of
from chainwatch.diagnosis.incidents import Held
from chainwatch.model.chain import Attempt, History
from chainwatch.model.job import Job
from chainwatch.model.verdict import Outcome
from chainwatch.recovery import for_chain, over_before
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.house import House
from chainwatch.supervisor.traces import ENDED_BY_US

SURPLUS = "the chain is done"
"""Why we end a standby that began just after its predecessor had finished the chain."""


def of(
    house: House,
    record: ChainRecord,
    now: datetime,
    *,
    incident: Held | None = None,
    cohorts: Mapping[Failure, Cohort] = MappingProxyType({}),
) -> History:
    """Everything known of the chain's past at `now`."""
    attempts = without_duplicates(house.store.attempts(record.name), record)
    cohort = part_of(cohorts, record.template, attempts)
    return History(
        chain=record.name,
        attempts=attempts,
        retried_at=record.retried_at,
        submissions_last_hour=_submissions(house, now),
        excluded=for_chain(house.store.excluded(now), record.name, now),
        gpu_hours=sum(gpu_hours(a, now) for a in attempts),
        cohort_stopped=f"{cohort.sentence()}: {cohort.line}" if cohort else "",
        incident=incident.sentence() if incident else "",
        incident_over=incident.over if incident else None,
        incident_chains=len(incident.incident.chains) if incident else 0,
    )


def _submissions(house: House, now: datetime) -> int:
    """How many jobs count against the most of an hour: the daemon's own, and where the site sets it every one."""
    return house.store.submissions_since(now - timedelta(hours=1), typed=house.site.submissions_per_hour is not None)


def without_duplicates(attempts: tuple[Attempt, ...], record: ChainRecord) -> tuple[Attempt, ...]:
    """The attempts that tell of the chain, in the order in which they ran.

    Those of our own jobs that we cancelled while pending do not, nor a standby that began after the chain was done, nor
    one that never began and was over before an earlier attempt was, nor what ran on after a proof: somebody's dependent jobs
    go on coming when the chain is done.
    """
    ours = record.facts.get(ENDED_BY_US)
    by_us: dict[str, str] = ours if isinstance(ours, dict) else {}
    telling = [
        a
        for a in attempts
        if not (a.job.start is None and (str(a.job.attempt) in by_us or _outlived(a, attempts)))
        and by_us.get(str(a.job.attempt)) != SURPLUS
        and not _after_the_end(a, attempts)
    ]
    return tuple(sorted(telling, key=lambda a: a.job.start or a.job.attempt.submitted))


def is_done(last: Attempt, record: ChainRecord) -> bool:
    """The chain is done with this attempt, and nobody has doubted it since."""
    verdict = last.verdict
    if verdict is None or verdict.outcome is not Outcome.DONE:
        return False
    return not (verdict.assumed and over_before(last, record.retried_at))


def _outlived(attempt: Attempt, others: tuple[Attempt, ...]) -> bool:
    ended = attempt.ended
    return ended is not None and any(
        b.number < attempt.number and b.ended is not None and ended <= b.ended for b in others
    )


def _after_the_end(attempt: Attempt, others: tuple[Attempt, ...]) -> bool:
    """It is over, and began, or ended without ever beginning, when the chain was proven done already."""
    begun = attempt.job.start or attempt.ended
    if attempt.verdict is None or begun is None:
        return False
    proven = (b for b in others if b.number != attempt.number and b.verdict is not None and b.verdict.proven_done)
    return any(b.ended is not None and b.ended <= begun for b in proven)


def gpu_hours(attempt: Attempt, now: datetime) -> float:
    """GPU-hours of one attempt; where Slurm names no GPUs, none are counted."""
    start = attempt.job.start
    if start is None or not attempt.job.gpus:
        return 0.0
    return attempt.job.gpus * max((attempt.ended or now) - start, timedelta(0)) / timedelta(hours=1)


def met(attempts: tuple[Attempt, ...], job: Job, record: ChainRecord, *, ours: bool) -> Attempt:
    """The attempt that this job is: the known one with newer facts, or the chain's next."""
    for known in reversed(attempts):
        if known.job.attempt == job.attempt:
            return replace(known, job=_newest(known.job, job))
    return Attempt(
        job=job,
        number=(attempts[-1].number if attempts else 0) + 1,
        ours=ours,
        step_before=record.step,
        saved_before=record.saved_step,
        script_digest=record.script_digest,
    )


def as_submitted(attempt: Attempt, expected: Mapping[str, Any]) -> Attempt:
    """The attempt with what was noted when its job was submitted."""
    return replace(
        attempt,
        resumed_from=expected.get("resume"),
        script_digest=str(expected.get("digest") or attempt.script_digest),
        image=str(expected.get("image") or ""),
        variables=tuple(str(name) for name in expected.get("variables") or ()),
    )


def _newest(known: Job, seen: Job) -> Job:
    """What is seen now, with every gap filled from what was known: a PreemptTime is never forgotten."""
    merged = seen.merged(known)
    return merged if merged.state is seen.state or known.state.terminal else replace(merged, state=seen.state)
