"""Where a stop may end the loop at once: while it waits for Slurm or for storage. Between these it ends by itself.

A question may be broken off at any moment. An effect gets a moment to come to its end, since one that is broken off is
doubtful: its intent stays open, and the next daemon looks up what came of it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import TypeVar

from chainwatch.model.job import Job, Node
from chainwatch.slurm.backend import Backend, ClusterInfo, Submission

T = TypeVar("T")
MOMENT = 1.0
"""Seconds that an effect under way may still take once the daemon is told to stop."""
_AGAIN = 0.25


class Stopped(BaseException):
    """The daemon was told to stop while it waited for something outside."""


class Outside:
    """Of one process's main thread: whether it waits for something outside, and what a stop does then."""

    def __init__(self) -> None:
        self._asks = self._acts = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Inside, a stop raises `Stopped` at once."""
        before, self._asks = self._asks, True
        try:
            yield
        finally:
            self._asks = before

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Inside, a stop raises `Stopped` after `MOMENT`."""
        before, self._acts = self._acts, True
        try:
            yield
        finally:
            self._acts = before

    def stop(self) -> None:
        """To be called by the handler of the signal that stops. Raises `Stopped` where a question is under way."""
        signal.setitimer(signal.ITIMER_REAL, MOMENT, _AGAIN)
        if self._asks:
            raise Stopped

    def alarm(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGALRM, after `stop`."""
        del number, frame
        if self._asks or self._acts:
            raise Stopped


class OutsideBackend:
    """A cluster whose calls a stop may break off. See `Backend`; for the main thread only."""

    def __init__(self, inner: Backend, outside: Outside) -> None:
        self.name = inner.name
        self._inner = inner
        self._outside = outside

    def info(self) -> ClusterInfo:
        return self._ask(self._inner.info)

    def queue(self, user: str | None) -> Sequence[Job]:
        return self._ask(lambda: self._inner.queue(user))

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        return self._ask(lambda: self._inner.accounting(job_ids, since=since, user=user))

    def job(self, job_id: int) -> Job | None:
        return self._ask(lambda: self._inner.job(job_id))

    def script(self, job_id: int) -> bytes | None:
        return self._ask(lambda: self._inner.script(job_id))

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        return self._ask(lambda: self._inner.nodes(names))

    def submit(self, submission: Submission) -> int:
        return self._act(lambda: self._inner.submit(submission))

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        self._act(lambda: self._inner.cancel(job_id, signal=signal, pending_only=pending_only))

    def hold(self, job_id: int) -> None:
        self._act(lambda: self._inner.hold(job_id))

    def release(self, job_id: int) -> None:
        self._act(lambda: self._inner.release(job_id))

    def requeue(self, job_id: int) -> None:
        self._act(lambda: self._inner.requeue(job_id))

    def _ask(self, question: Callable[[], T]) -> T:
        with self._outside.asking():
            return question()

    def _act(self, effect: Callable[[], T]) -> T:
        with self._outside.acting():
            return effect()
