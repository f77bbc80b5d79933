"""Short ways to the jobs and snapshots of these tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.model.job import AttemptId, Job, JobState, Snapshot, Source

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BOTH = frozenset({Source.QUEUE, Source.ACCOUNTING})


def queued(state: JobState = JobState.RUNNING, job_id: int = 7, submitted: datetime = NOW, **more: Any) -> Job:
    """As squeue shows it."""
    given: dict[str, Any] = {"shown_id": str(job_id), "source": Source.QUEUE, "user": "ada", "name": "train", **more}
    return Job(AttemptId("alpha", job_id, submitted), state=state, **given)


def recorded(state: JobState, job_id: int = 7, submitted: datetime = NOW, **more: Any) -> Job:
    """As sacct shows it."""
    return queued(state, job_id, submitted, **{"source": Source.ACCOUNTING, **more})


def snapshot(jobs: tuple[Job, ...] = (), records: tuple[Job, ...] = (), answered: frozenset[Source] = BOTH) -> Snapshot:
    failed = dict.fromkeys(BOTH - answered, "timed out")
    return Snapshot("alpha", NOW, jobs=jobs, records=records, answered=answered, failed=failed)
