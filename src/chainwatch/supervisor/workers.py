"""Readers in processes of their own: storage that hangs stalls one of them, never the loop.

A process that waits for a dead file system cannot always be killed; it is given up and replaced, and there are never more
than a few of them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from chainwatch.checkpoints.polite import limit
from chainwatch.evidence.follow import Following
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.clock import Clock
from chainwatch.model.job import AttemptId, Job
from chainwatch.model.verdict import Progress
from chainwatch.supervisor import reading, recovered
from chainwatch.supervisor.readers import LeftBehind, Place, Silent

T = TypeVar("T")
MOST_WORKERS = 3
_RUNNING = ":running"
KEPT = timedelta(minutes=15)
"""How old an answer may be that nobody fetched: the question may be asked again days later, of another state."""
MOST_GIVEN_UP = 8
"""Readers that hang for ever, before no new one is started."""


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    key: str | None = None
    since: float = 0.0
    begun: datetime | None = None
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class _Answer:
    good: bool
    value: Any
    begun: datetime
    """When the work was begun: what changed since is not in it."""


def _serve(pipe: Connection) -> None:
    """The worker's loop: a call in, its answer or its error out. Ends with the daemon (the pipe closes)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        os.nice(5)
    except OSError:
        pass
    limited: float | None = None
    while True:
        try:
            function, arguments, rate = pipe.recv()
        except (EOFError, OSError):
            return
        if rate != limited:
            limited = rate
            limit(rate)
        answer: tuple[bool, Any]
        try:
            answer = (True, function(*arguments))
        except OSError as e:
            answer = (False, f"{e.filename or 'storage'}: {e.strerror or e}")
        except Exception as e:  # noqa: BLE001 - whatever a reader stumbles over is this read's answer
            answer = (False, f"{type(e).__name__}: {e}")
        try:
            pipe.send(answer)
        except (OSError, ValueError):
            return


class ProcessReaders:
    """`Readers` over worker processes."""

    def __init__(
        self,
        clock: Clock,
        *,
        patience: float = 2.0,
        rate: float | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`patience`: seconds that one call waits at most; a longer read goes on, and is fetched by asking again. It may be
        changed at any time.
        `rate`: bytes of checkpoints that all readers together may read in a second; it may be changed at any time.
        `waiting`: put around each wait for an answer, which an exception may end."""
        self._waiting = waiting
        self.rate = rate
        self._clock = clock
        self.patience = patience
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["chainwatch.supervisor.reading"])
        self._workers: list[_Worker] = []
        self._done: dict[str, _Answer] = {}
        self._given_up: list[_Worker] = []
        self._following: dict[str, tuple[AttemptId | None, Following]] = {}

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        if place.settings.checkpoints is None:
            return None
        now = self._clock.now().timestamp()
        key = f"checkpoints:{place.chain}:{settle.total_seconds()}"
        if not fresh:
            # An answer that a running job was asked for must not be taken for what it left behind. Such looks are never
            # waited for, and take one reader at most: nothing is decided by them.
            key += _RUNNING
            if key not in self._done and any(w.key != key and (w.key or "").endswith(_RUNNING) for w in self._workers):
                return Silent("another chain is looked at")
        answer = self._ask(
            key,
            reading.checkpoints,
            (place, settle, now, fresh),
            place.settings.checkpoints.read_deadline,
            self.patience if fresh else 0.0,
            place.since,
        )
        return answer if isinstance(answer, (RunReport, Silent)) else Silent("an answer that is no report")

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        del now
        answer = self._ask(f"left:{place.chain}:{job.attempt}", reading.left_behind, (place, job), timedelta(minutes=2))
        return answer if isinstance(answer, (LeftBehind, Silent)) else Silent("an answer that is no evidence")

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        attempt, following = self._following.get(place.chain, (None, Following()))
        if attempt != job.attempt:
            following = Following()
        answer = self._ask(
            f"progress:{place.chain}:{job.attempt}",
            reading.progress,
            (place, job, following, now),
            timedelta(minutes=1),
        )
        if not isinstance(answer, tuple):
            return answer if isinstance(answer, Silent) else Silent("an answer that is no progress")
        progress, following = answer
        self._following[place.chain] = (job.attempt, following)
        return progress if isinstance(progress, Progress) else Silent("an answer that is no progress")

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        answer = self._ask(f"probe:{place.chain}", recovered.storage, (place, write), timedelta(seconds=30))
        return answer if isinstance(answer, (str, Silent)) else Silent("an answer that is no word")

    def work(self, key: str, function: Callable[..., T], *arguments: Any) -> T | Silent:
        answer: T | Silent = self._ask(key, function, arguments, timedelta(minutes=1))
        return answer

    def busy(self, key: str) -> bool:
        self._collect(0.0)
        self._done.pop(key, None)
        self._given_up = [w for w in self._given_up if w.process.is_alive()]
        return any(w.key == key for w in (*self._workers, *self._given_up))

    def close(self) -> None:
        """End every worker; those that cannot be ended are left to the kernel."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join(1)
        self._workers.clear()

    # -- the pool

    def _ask(
        self,
        key: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        deadline: timedelta,
        patience: float | None = None,
        since: datetime | None = None,
    ) -> Any:
        """`since`: an answer whose work was begun before does not count."""
        self._collect(0.0)
        self._forget(key, since)
        if key not in self._done and not any(w.key == key for w in self._workers):
            worker = self._idle()
            if worker is None:
                return Silent("every reader is busy: storage is slow")
            worker.key, worker.since, worker.begun = key, self._clock.monotonic(), self._clock.now()
            worker.deadline = worker.since + deadline.total_seconds()
            try:
                share = None if self.rate is None else self.rate / MOST_WORKERS / 2  # the other half is for seals
                worker.pipe.send((function, arguments, share))
            except OSError:
                self._replace(worker)
                return Silent("a reader died")
        if key not in self._done:
            waiting = next((w for w in self._workers if w.key == key), None)
            if waiting is not None:
                self._receive(waiting, self.patience if patience is None else patience)
                self._forget(key, since)
        if key in self._done:
            answer = self._done.pop(key)
            return answer.value if answer.good else Silent(str(answer.value))
        return Silent("storage does not answer yet")

    def _forget(self, key: str, since: datetime | None) -> None:
        """Drop what is too old to be an answer."""
        old = self._clock.now() - KEPT
        for name, answer in list(self._done.items()):
            if answer.begun < old or (name == key and since is not None and answer.begun < since):
                del self._done[name]

    def _note(self, worker: _Worker, good: bool, value: Any) -> None:
        assert worker.key is not None, "only a busy worker has an answer"
        assert worker.begun is not None
        self._done[worker.key] = _Answer(good, value, worker.begun)

    def _collect(self, patience: float) -> None:
        now = self._clock.monotonic()
        for worker in list(self._workers):
            if worker.key is None:
                continue
            self._receive(worker, patience)
            if worker.key is not None and now > worker.deadline:
                self._note(worker, False, f"storage did not answer within {worker.deadline - worker.since:.0f} s")
                self._replace(worker)

    def _receive(self, worker: _Worker, patience: float) -> None:
        try:
            with self._waiting():
                there = worker.pipe.poll(patience)
            if there:
                self._note(worker, *worker.pipe.recv())
                worker.key = None
        except (EOFError, OSError):
            self._note(worker, False, "the reader died while it read")
            self._replace(worker)

    def _idle(self) -> _Worker | None:
        self._given_up = [w for w in self._given_up if w.process.is_alive()]
        for worker in list(self._workers):
            if worker.key is None and worker.process.is_alive():
                return worker
            if worker.key is None:
                self._replace(worker)
        if len(self._workers) >= MOST_WORKERS or len(self._given_up) >= MOST_GIVEN_UP:
            return None
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True, name="chainwatch-reader")
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def _replace(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        self._given_up.append(worker)
