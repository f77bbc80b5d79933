"""Ending a job of ours, journaled first."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from chainwatch.actions.tag import find, new_token
from chainwatch.model.job import Job
from chainwatch.slurm.backend import NoInformation, Refused
from chainwatch.store.records import ChainRecord, IntentKind, IntentStatus
from chainwatch.supervisor.traces import ENDED_BY_US, Traces


class Cancelling:
    """Cancels jobs for one house."""

    def __init__(self, traces: Traces) -> None:
        self.house = traces.house
        self._traces = traces

    def cancel_pending(self, record: ChainRecord, job: Job, why: str, now: datetime) -> bool:
        """Cancel our own job, only as long as it is pending. True: Slurm took the request."""
        return self.cancel(record, job, why, now, pending_only=True)

    def cancel(self, record: ChainRecord, job: Job, why: str, now: datetime, *, pending_only: bool) -> bool:
        """Cancel our own job. True: Slurm took the request."""
        if not self.house.may_act(record) or find(job.comment) is None:
            return False
        store, lease = self.house.store, self.house.lease
        with store.transaction(lease):
            intent = store.begin_intent(lease, record.name, IntentKind.CANCEL, new_token(), asdict(job.attempt) | {
                "submitted": job.attempt.submitted.isoformat(), "why": why,
            }, now)  # fmt: skip
            self._traces.with_note(record, ENDED_BY_US, job.attempt, why)
        self.house.audit.note(now, "scancel", record.name, job=job.job_id, why=why)
        try:
            self.house.backends[record.cluster].cancel(job.job_id, pending_only=pending_only)
        except (Refused, NoInformation) as e:
            store.close_intent(lease, intent, IntentStatus.REFUSED, now, note=str(e))
            return False
        store.close_intent(lease, intent, IntentStatus.DONE, now, job_id=job.job_id)
        pending = "pending " if pending_only else ""
        self.house.say(f"our own {pending}job {job.shown_id} is cancelled: {why}", record, {})
        return True
