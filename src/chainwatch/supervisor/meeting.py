"""Attempts as the queue shows them, written down the first time that they are seen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chainwatch.model.job import JobState
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import history
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.scene import Scene, ours
from chainwatch.supervisor.sight import order
from chainwatch.supervisor.standby import Standby


class Meeting:
    """Meets the jobs of one house's chains."""

    def __init__(self, acting: Acting, standby: Standby) -> None:
        self.house = acting.house
        self.traces = acting.traces
        self._standby = standby

    def meet(self, record: ChainRecord, scene: Scene, now: datetime) -> ChainRecord:
        """Write down every attempt that the queue shows, and those that accounting alone still has."""
        store = self.house.store
        attempts = store.attempts(record.name)
        for job in sorted((*scene.jobs, *scene.missed), key=order):
            if job.array_task is not None and job.state is JobState.PENDING and job.job_id == job.array_job_id:
                continue  # the rest of an array has no identity of its own yet
            known = next((a for a in attempts if a.job.attempt == job.attempt), None)
            if known is not None and known.ended is not None:
                continue
            if known is None and self._standby.no_attempt(record, job, scene.jobs):
                continue
            attempt = history.met(attempts, job, record, ours=ours(job, record))
            changes: dict[str, Any] = {}
            expected = record.facts.get("expected")
            if isinstance(expected, Mapping) and expected.get("job_id") in {job.job_id, job.array_job_id}:
                changes["facts"] = {k: v for k, v in record.facts.items() if k not in {"expected", "vanished_since"}}
                if known is None:
                    attempt = history.as_submitted(attempt, expected)
            if known is not None and attempt == known:
                continue
            if known is None:
                changes["grace_until"] = None
            with store.transaction(self.house.lease):
                store.put_attempt(record.name, attempt)
                if changes:
                    store.update_chain(record.name, **changes)
            record = self.traces.again(record) if changes else record
            attempts = store.attempts(record.name)
            if known is None and not job.state.terminal:
                self.house.say(
                    f"attempt {attempt.number} is job {job.shown_id} ({job.state.lower()})"
                    + ("" if attempt.ours else ", submitted by somebody else and adopted"),
                    record,
                    {"attempt": attempt.number},
                )
        return record
