"""Early warnings of a running attempt: gathered from what the poll read and what is remembered, each told once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from chainwatch.config.models import Chain
from chainwatch.diagnosis.early import Ahead, Early, Speed, Warned, warnings
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Status
from chainwatch.model.job import Job, JobState
from chainwatch.model.verdict import Cause, Progress
from chainwatch.store.records import ChainRecord, Save
from chainwatch.supervisor.readers import Silent
from chainwatch.supervisor.traces import Traces

SPEED, WARNED = "speed", "warned"
"""Facts of the chain's record: the step rate that was learned, and what is warned of."""
_SAVES = 50
_AT_LIMIT = timedelta(minutes=10)
_TITLES = {
    Early.LIMIT: "the time limit comes before the next checkpoint",
    Early.ROOM: "its next checkpoints may not fit",
    Early.SLOW: "it has become slow",
    Early.UNSAVED: "its checkpoints stopped coming",
}


def look(
    traces: Traces,
    record: ChainRecord,
    settings: Chain,
    job: Job,
    progress: Progress | Silent,
    silent: bool,
    now: datetime,
) -> dict[str, Any]:
    """Tell what is ahead of this attempt, and take back what is over; the facts to keep. In the caller's transaction.

    `silent`: it seems to hang, which is told by itself.
    """
    if isinstance(progress, Silent) or job.start is None or job.state is not JobState.RUNNING:
        return {}
    store, policy = traces.house.store, settings.warnings
    training = progress.phase in {"", "training"} and not silent
    speed = Speed.of(record.facts.get(SPEED)).after(progress.rate, training, policy.slower_by)
    standing = _standing(record, job)
    _mend_loss(traces, record, job, progress, now)
    saves = store.saves(record.name, last=_SAVES)
    found = warnings(
        Ahead(
            now=now,
            started=job.start,
            limit=job.time_limit,
            suspended=job.suspended_for or timedelta(0),
            saves=sorted(s.at for s in saves if s.status is Status.INTACT),
            saves_at_limit=_saves_at_limit(store.attempts(record.name), saves),
            room=progress.room,
            rate=progress.rate,
            speed=speed,
            moving=not silent,
        ),
        policy,
        standing,
    )
    _tell(traces, record, job, found, standing, now)
    return {
        SPEED: speed.as_dict(),
        WARNED: {"attempt": str(job.attempt), "kinds": sorted(one.early.value for one in found)},
    }


def over(traces: Traces, record: ChainRecord, now: datetime) -> None:
    """The attempt has ended: what was ahead of it is ahead no more."""
    warned = record.facts.get(WARNED)
    if isinstance(warned, Mapping):
        for kind in warned.get("kinds", ()):
            traces.house.store.recover(f"{record.name}:{kind}:{warned.get('attempt')}", now)


def _tell(
    traces: Traces,
    record: ChainRecord,
    job: Job,
    found: Sequence[Warned],
    standing: frozenset[Early],
    now: datetime,
) -> None:
    if not standing:
        over(traces, record, now)  # those of the attempt before, where no poll lay between the two
    for one in found:
        if one.early not in standing:
            traces.owe(
                record, f"{one.early}:{job.attempt}", "warning", f"{record.name}: {_TITLES[one.early]}", now,
                what=f"job {job.shown_id} runs", why=one.why, did="nothing: the job is left alone", wants=one.wants,
                command=f"chainwatch explain {record.name}",
            )  # fmt: skip
    for early in standing - {one.early for one in found}:
        traces.house.store.recover(f"{record.name}:{early}:{job.attempt}", now)


def _standing(record: ChainRecord, job: Job) -> frozenset[Early]:
    warned = record.facts.get(WARNED)
    if not isinstance(warned, Mapping) or warned.get("attempt") != str(job.attempt):
        return frozenset()
    return frozenset(Early(kind) for kind in warned.get("kinds", ()) if kind in set(Early))


def _mend_loss(traces: Traces, record: ChainRecord, job: Job, progress: Progress, now: datetime) -> None:
    """A loss that is a number again takes back what was told of it."""
    was_lost = isinstance(record.facts.get("loss"), str)
    if was_lost and progress.loss is not None and math.isfinite(progress.loss):
        traces.house.store.recover(f"{record.name}:nan:{job.attempt}", now)


def _saves_at_limit(attempts: Sequence[Attempt], saves: Sequence[Save]) -> bool:
    """The newest attempt that met its time limit had saved in its last minutes."""
    met = [a for a in attempts if a.verdict is not None and a.verdict.cause is Cause.TIME_LIMIT and a.ended is not None]
    if not met:
        return False
    end = met[-1].ended
    return end is not None and any(end - _AT_LIMIT <= s.at <= end for s in saves)
