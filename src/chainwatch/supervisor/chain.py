"""One step of one chain: compare what should be true with what is, and do the next thing.

The step is level-triggered. It reads the store and the snapshot, never its own memory, so that a daemon that was killed at
any line goes on from there without a special path. Its order:

    open submissions -> jobs seen -> two live jobs? -> a live job: look after it
                                                   -> none: has the last attempt ended? -> judge it -> decide -> act
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chainwatch.model.chain import ChainState, Desired
from chainwatch.model.job import JobState, Source
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import history
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.closing import Closing
from chainwatch.supervisor.doubtful import Doubtful
from chainwatch.supervisor.ending import Ending
from chainwatch.supervisor.house import House
from chainwatch.supervisor.living import Living
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.scene import Scene, ours
from chainwatch.supervisor.standby import Standby


class ChainStep:
    """Takes steps for the chains of one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.acting = Acting(house)
        self.traces = self.acting.traces
        closing = Closing(self.acting)
        self._doubtful = Doubtful(self.acting)
        self._standby = Standby(self.acting)
        self._living = Living(self.acting, closing, self._standby)
        self._ending = Ending(self.acting, closing)

    def take(self, record: ChainRecord, scene: Scene) -> ChainRecord:
        """Take the next step for this chain. Raises LeaseLost and StoreError; everything else is this chain's alone."""
        now = self.house.clock.now()
        if record.released:
            self._doubtful.settle(record, scene, now)  # so that it may be forgotten, and no job of ours is nobody's
            return record
        settings = self.house.settings(record)
        place = Place(record.name, settings, self.acting.directory(record, settings))
        record = self._wishes(record, now)
        record = self._meet(record, scene, now)
        open_submission = self._doubtful.settle(record, scene, now)
        record = self.traces.again(record)
        live = tuple(j for j in scene.jobs if not j.state.terminal)
        if live:
            return self._living.look_after(record, settings, place, live, scene, now)
        if open_submission is not None:
            return self.traces.state(
                record,
                ChainState.RECOVERING,
                f"the outcome of a submission is being looked up: {open_submission}",
                now,
            )
        if not scene.snapshot.knows(Source.QUEUE):
            return record  # nothing may be concluded; what was true stays as it is
        return self._ending.after(self._ending.nobody_runs(record, now), settings, place, scene, now)

    def _wishes(self, record: ChainRecord, now: datetime) -> ChainRecord:
        if record.desired is Desired.PAUSE and record.desired_until is not None and now >= record.desired_until:
            with self.house.store.transaction(self.house.lease):
                self.house.store.update_chain(record.name, desired=Desired.RUN, desired_until=None)
                self.traces.owe(
                    record, f"pause-over:{record.desired_until.isoformat()}", "info",
                    f"{record.name}: the pause is over", now, why=record.desired_why or "it was asked for this long",
                    did="chainwatch looks after the chain again",
                )  # fmt: skip
            return self.traces.again(record)
        return record

    def _meet(self, record: ChainRecord, scene: Scene, now: datetime) -> ChainRecord:
        """Write down every attempt that the queue shows."""
        store = self.house.store
        attempts = store.attempts(record.name)
        for job in scene.jobs:
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


__all__ = ["ChainStep", "Scene"]
