"""Short ways to the values that the tests of the store need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.model.chain import Attempt, Mode
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.store.records import ChainRecord, Origin

NOW = datetime(2026, 3, 4, 5, 6, 7, 890, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def record(name: str = "llama", **changes: Any) -> ChainRecord:
    values: dict[str, Any] = {
        "name": name,
        "cluster": "alpha",
        "origin": Origin.CONFIG,
        "mode": Mode.ACT,
        "settings": {"batch": "train.sh", "done": {"step": 1000}},
        "created": NOW,
    }
    return ChainRecord(**(values | changes))


def job(job_id: int = 7, submitted: datetime = NOW, **changes: Any) -> Job:
    values: dict[str, Any] = {"shown_id": str(job_id), "state": JobState.RUNNING, "source": Source.QUEUE}
    return Job(AttemptId("alpha", job_id, submitted), **(values | changes))


def attempt(job_id: int = 7, number: int = 0, submitted: datetime = NOW, **changes: Any) -> Attempt:
    return Attempt(job(job_id, submitted), number, ours=True, **changes)
