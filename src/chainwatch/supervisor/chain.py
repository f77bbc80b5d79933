"""One step of one chain: compare what should be true with what is, and do the next thing.

The step is level-triggered. It reads the store and the snapshot, never its own memory, so that a daemon that was killed at
any line goes on from there without a special path. Its order:

    open submissions -> jobs seen -> two live jobs? -> a live job: look after it
                                                   -> none: has the last attempt ended? -> judge it -> decide -> act
"""

from __future__ import annotations

from datetime import datetime

from chainwatch.model.chain import Desired
from chainwatch.model.job import Source
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.closing import Closing
from chainwatch.supervisor.doubtful import Doubtful
from chainwatch.supervisor.ending import Ending
from chainwatch.supervisor.house import House
from chainwatch.supervisor.living import Living
from chainwatch.supervisor.meeting import Meeting
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.standby import Standby


class ChainStep:
    """Takes steps for the chains of one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.acting = Acting(house)
        self.traces = self.acting.traces
        closing = Closing(self.acting)
        self._doubtful = Doubtful(self.acting)
        standby = Standby(self.acting)
        self._meeting = Meeting(self.acting, standby)
        self._living = Living(self.acting, closing, standby)
        self._ending = Ending(self.acting, closing)

    def take(self, record: ChainRecord, scene: Scene) -> ChainRecord:
        """Take the next step for this chain. Raises LeaseLost and StoreError; everything else is this chain's alone."""
        now = self.house.clock.now()
        if record.released:
            self._doubtful.settle(record, scene, now)  # so that it may be forgotten, and no job of ours is nobody's
            return record
        settings = self.house.settings(record)
        place = Place(record.name, settings, self.acting.directory(record, settings), record.state_since)
        record = self._wishes(record, now)
        record = self._meeting.meet(record, scene, now)
        open_submission = self._doubtful.settle(record, scene, now)
        record = self.traces.again(record)
        live = tuple(j for j in scene.jobs if not j.state.terminal)
        if live:
            return self._living.look_after(record, settings, place, live, scene, now)
        if open_submission is not None:
            began = min(i.tried_at or i.created for i in self.house.store.open_intents(record.name))
            words = f"the outcome of a submission is being looked up: {open_submission}"
            return self.traces.checking(record, words, began, now)
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


__all__ = ["ChainStep", "Scene"]
