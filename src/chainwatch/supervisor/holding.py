"""Holds of pending jobs: which of them the loop lifts, and doing so."""

from __future__ import annotations

from datetime import datetime

from chainwatch.actions import holds
from chainwatch.config.models import Chain
from chainwatch.model.chain import Desired, Release
from chainwatch.model.job import Job
from chainwatch.recovery.holds import HeldJob, to_release
from chainwatch.store.records import ChainRecord, IntentStatus
from chainwatch.supervisor.house import House
from chainwatch.supervisor.scene import ours
from chainwatch.supervisor.traces import Traces


class Holding:
    """Lifts holds for one house."""

    def __init__(self, house: House, traces: Traces) -> None:
        self.house = house
        self.traces = traces

    def look(self, record: ChainRecord, settings: Chain, job: Job, now: datetime) -> str:
        """Lift the job's hold if it is ours to lift. What was done or would be, in words; empty: nothing."""
        if record.desired is not Desired.RUN:
            if record.desired is Desired.PAUSE and not job.held and self._past(record, job).held:
                self._holds().lifted(record.name, job, now)
            return ""
        if not job.held:
            return ""
        done = self._past(record, job)
        held = HeldJob(
            job,
            ours=ours(job, record),
            held_by_us=done.held,
            releases=done.releases,
            tries=done.tries,
            tried=done.last.created if done.last else None,
            refused=done.last is not None and done.last.status is not IntentStatus.DONE,
        )
        decision = to_release(held, now, launch_failures=settings.recovery.release_launch_failures)
        return "" if decision is None else self._release(record, decision, now)

    def _release(self, record: ChainRecord, decision: Release, now: datetime) -> str:
        job, house = decision.job, self.house
        if not house.may_act(record):
            return f"would release it ({house.why_not(record)}): {decision.why}"
        with house.store.transaction(house.lease):
            self.traces.write(record.name, None, decision, now, decision.why)
        problem = self._holds().release(house.backends[record.cluster], record.name, job, decision.why, now)
        if problem:
            return f"its hold could not be lifted: {problem}"
        house.say(f"job {job.shown_id} is released: {decision.why}", record, {"decision": "release"})
        return decision.why

    def _past(self, record: ChainRecord, job: Job) -> holds.Past:
        return holds.past(self.house.store, record.name, job)

    def _holds(self) -> holds.Holds:
        return holds.Holds(self.house.store, self.house.lease, self.house.audit)
