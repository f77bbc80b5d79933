"""Checkpoints set right before somebody's next job starts: the resume file, the pointer, damaged ones moved aside."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from chainwatch.actions import aside, compose, moving, resume_file
from chainwatch.config.models import Chain, HandOver
from chainwatch.model.chain import FromCheckpoint, History, Mode
from chainwatch.model.checkpoint import Checkpoint
from chainwatch.model.job import Job
from chainwatch.recovery.resume import choose
from chainwatch.store.records import ChainRecord, Move
from chainwatch.supervisor import judging, tracking
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.traces import Traces

T = TypeVar("T")
COMPLETING_SETTLE = timedelta(seconds=10)
"""While a job completes its writers are being killed; what has not changed for this long is not written any more."""


class SettingRight:
    """Makes what the next job looks at name an intact checkpoint."""

    def __init__(self, house: House, traces: Traces) -> None:
        self.house = house
        self.traces = traces

    def settle(self, now: datetime) -> None:
        """Changes that were planned and whose outcome nobody wrote down: a daemon died, or the storage was silent. They
        are found made or not by looking, once no process of ours can still be making them."""
        readers, store = self.house.readers, self.house.store
        for move in store.moves(state="planned"):
            if readers.busy(_key(move)):
                continue
            made = readers.work(f"look:{move.id}", moving.was_made, move)
            if not isinstance(made, Silent):
                store.mark_move(move.id, "made" if made else "undone", now)

    def set_right(self, record: ChainRecord, settings: Chain, place: Place, now: datetime, ending: Job | None) -> str:
        """Make whatever the next job looks at name the newest intact checkpoint: the resume file, the pointer, and, where
        the configuration allows it, damaged checkpoints moved aside. `ending`: a job that is about to end still runs.

        Empty, or why it is not done yet: the storage is silent, and a job that started now might find a damaged one.
        """
        where = settings.checkpoints
        if where is None or record.mode is not Mode.ACT or not self.house.may_act(record):
            return ""
        attempts = self.house.store.attempts(record.name)
        over = [a for a in attempts if a.ended is not None]
        settle = judging.settle_after(over[-1].job, settings) if over else where.settle
        if ending is not None:
            settle = min(where.settle, COMPLETING_SETTLE)
        changes = where.hand_over in {HandOver.POINTER, HandOver.SET_ASIDE}
        report = self.house.readers.checkpoints(place, settle=settle)
        if isinstance(report, Silent) or report is None:
            return report.why if changes and isinstance(report, Silent) else ""
        tracking.seen(self.house.store, self.house.lease, record, report)
        choice = choose(settings, report, History(record.name, attempts, record.retried_at))
        resume = getattr(choice, "resume", None)
        if resume is None:
            return ""
        path = compose.resume_path(resume)
        resume_file.write(resume_file.path_of(self.house.state, record.name), compose.handed_over(settings, path))
        if not changes or not isinstance(resume, FromCheckpoint):
            return ""
        if any(move.chain == record.name for move in self.house.store.moves(state="planned")):
            return "an earlier change of its checkpoints is not settled"
        bad = choice.newer_bad if where.hand_over is HandOver.SET_ASIDE else ()  # type: ignore[union-attr]
        try:
            for one in bad:
                self._told(record, now, partial(self._set_aside, record, one, now))
            self._told(record, now, partial(self._mend_pointer, record, str(report.path), resume.checkpoint, now))
        except _Waits as waits:
            return str(waits)
        return ""

    def _told(self, record: ChainRecord, now: datetime, change: Callable[[], None]) -> None:
        """Make a change; where it cannot be made a person is told, and the others are made all the same."""
        try:
            change()
        except aside.MoveError as e:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"move:{e}", "warning", f"{record.name}: a checkpoint could not be set right", now,
                    why=str(e),
                )  # fmt: skip

    def _set_aside(self, record: ChainRecord, bad: Checkpoint, now: datetime) -> None:
        changes = _answer(self.house.readers.work(f"aside:{bad.path}", moving.aside, bad.path))
        if not changes:
            return  # somebody was faster
        self.house.audit.note(now, "set_aside", record.name, path=bad.path, why=bad.reason)
        for change in changes:
            self._change(record, change, bad.reason, now)
        self.house.say(f"{os.path.basename(bad.path)} was moved aside: {bad.reason}", record, {})

    def _mend_pointer(self, record: ChainRecord, run: str, newest: Checkpoint, now: datetime) -> None:
        change = _answer(self.house.readers.work(f"pointer:{run}:{newest.path}", moving.pointer, run, newest))
        if change is None:
            return
        self.house.audit.note(now, "pointer", record.name, path=change.path, content=change.target)
        self._change(record, change, "names the newest intact step", now)
        self.house.say(f"{os.path.basename(change.path)} names {change.target} again", record, {})

    def _change(self, record: ChainRecord, change: moving.Change, why: str, now: datetime) -> None:
        """Journal it, and make it in a process that may hang."""
        move = aside.plan(self.house.store, change, record.name, why, now)
        problem = self.house.readers.work(_key(move), moving.make, move)
        if isinstance(problem, Silent):
            raise _Waits(problem.why)
        aside.record(self.house.store, move, problem, now)
        if problem is not None:
            raise aside.MoveError(problem.why)


class _Waits(Exception):
    """The storage does not answer."""


def _answer(found: T | moving.Problem | Silent) -> T:
    if isinstance(found, Silent):
        raise _Waits(found.why)
    if isinstance(found, moving.Problem):
        raise aside.MoveError(found.why)
    return found


def _key(move: Move) -> str:
    return f"move:{move.id}"
