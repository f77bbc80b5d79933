"""Checkpoints set right before somebody's next job starts: the resume file, the pointer, damaged ones moved aside."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from chainwatch.actions import aside, compose, resume_file
from chainwatch.config.models import Chain, HandOver
from chainwatch.model.chain import FromCheckpoint, History, Mode
from chainwatch.model.job import Job
from chainwatch.recovery.resume import choose
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import judging
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.traces import Traces

COMPLETING_SETTLE = timedelta(seconds=10)
"""While a job completes its writers are being killed; what has not changed for this long is not written any more."""


class SettingRight:
    """Makes what the next job looks at name an intact checkpoint."""

    def __init__(self, house: House, traces: Traces) -> None:
        self.house = house
        self.traces = traces

    def set_right(self, record: ChainRecord, settings: Chain, place: Place, now: datetime, ending: Job | None) -> None:
        """Make whatever the next job looks at name the newest intact checkpoint: the resume file, the pointer, and, where
        the configuration allows it, damaged checkpoints moved aside. `ending`: a job that is about to end still runs.
        """
        where = settings.checkpoints
        if where is None or record.mode is not Mode.ACT or not self.house.may_act(record):
            return
        attempts = self.house.store.attempts(record.name)
        over = [a for a in attempts if a.ended is not None]
        settle = judging.settle_after(over[-1].job, settings) if over else where.settle
        if ending is not None:
            settle = min(where.settle, COMPLETING_SETTLE)
        report = self.house.readers.checkpoints(place, settle=settle)
        if isinstance(report, Silent) or report is None:
            return
        choice = choose(settings, report, History(record.name, attempts))
        resume = getattr(choice, "resume", None)
        if resume is None:
            return
        path = compose.resume_path(resume)
        resume_file.write(resume_file.path_of(self.house.state, record.name), path)
        if not isinstance(resume, FromCheckpoint) or where.hand_over not in {HandOver.POINTER, HandOver.SET_ASIDE}:
            return
        try:
            if where.hand_over is HandOver.SET_ASIDE:
                for bad in choice.newer_bad:  # type: ignore[union-attr]
                    self.house.audit.note(now, "set_aside", record.name, path=bad.path, why=bad.reason)
                    aside.set_aside(self.house.store, bad, record.name, bad.reason, now)
                    self.house.say(f"{os.path.basename(bad.path)} was moved aside: {bad.reason}", record, {})
            moved = aside.mend_pointer(
                self.house.store, str(report.path), resume.checkpoint, record.name, "names the newest intact step", now
            )
            if moved is not None:
                self.house.audit.note(now, "pointer", record.name, path=moved.path, content=moved.target)
                self.house.say(f"{os.path.basename(moved.path)} names {moved.target} again", record, {})
        except aside.MoveError as e:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record,
                    f"move:{e}",
                    "warning",
                    f"{record.name}: a checkpoint could not be set right",
                    now,
                    why=str(e),
                )
