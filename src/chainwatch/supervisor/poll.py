"""One poll of one cluster: one squeue, and one sacct only when an attempt has ended, vanished, or must be looked up."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from chainwatch.model.clock import Clock
from chainwatch.model.job import Job, Node, Snapshot, Source
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.slurm.weaker import Weakness

_LONGEST = timedelta(minutes=10)
T = TypeVar("T")


class Ask(Protocol):
    """Asks one question of a source and keeps the books about it; None where it did not answer."""

    def __call__(self, source: Source, question: Callable[[], T]) -> T | None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What else must be asked, given the queue."""

    ids: Collection[int] = ()
    since: datetime | None = None
    """Look for our tokens among everything of the user since then."""
    nodes: Collection[str] = ()


class Poller:
    """Polls one cluster. Failures take capabilities away from the snapshot, and space out the next polls."""

    def __init__(
        self, backend: Backend, clock: Clock, user: str | None, interval: timedelta, rng: random.Random
    ) -> None:
        self.backend = backend
        self.accounting = True
        """False: the site keeps none. Nobody is asked for it; what the controller still knows of an end stands in."""
        self._clock = clock
        self._user = user
        self.interval = interval
        self._rng = rng
        self._failures = 0
        self._took: deque[float] = deque(maxlen=2)
        """Seconds of the last answers of the queue, none failed between."""
        self.last_good: dict[Source, datetime] = {}
        self.asked: dict[Source, int] = {}
        self.errors: dict[Source, int] = {}
        self.last_error: dict[Source, str] = {}
        """Why the newest question got no answer, of the sources where it got none."""
        self.seconds: dict[Source, float] = {}
        """How long the newest question took."""
        self.spent: dict[Source, float] = {}
        """Seconds of all questions together."""

    def poll(self, wanted: Callable[[Sequence[Job] | None], Wanted]) -> Snapshot:
        """Ask the queue, then what `wanted` (given the queue, None if it did not answer) calls for."""
        now = self._clock.now()
        answered: set[Source] = set()
        failed: dict[Source, str] = {}
        jobs: Sequence[Job] | None = None

        def ask(source: Source, question: Callable[[], T]) -> T | None:
            began = self._clock.monotonic()
            self.asked[source] = self.asked.get(source, 0) + 1
            try:
                answer = question()
            except NoInformation as e:
                failed[source] = self.last_error[source] = str(e)
                self.errors[source] = self.errors.get(source, 0) + 1
                return None
            finally:
                self.seconds[source] = self._clock.monotonic() - began
                self.spent[source] = self.spent.get(source, 0.0) + self.seconds[source]
            answered.add(source)
            self.last_good[source] = now
            self.last_error.pop(source, None)
            return answer

        jobs = ask(Source.QUEUE, lambda: self.backend.queue(self._user))
        self._failures = 0 if jobs is not None else self._failures + 1
        if jobs is not None:
            self._took.append(self.seconds[Source.QUEUE])
        else:
            self._took.clear()
        want = wanted(jobs)
        records: list[Job] = []
        nodes: Sequence[Node] = ()
        if not self.accounting:
            failed[Source.ACCOUNTING] = Weakness.NO_ACCOUNTING.value
            if jobs is not None:
                jobs = [self._in_full(job, ask) if job.job_id in want.ids else job for job in jobs]
        elif want.ids:
            records += ask(Source.ACCOUNTING, lambda: self.backend.accounting(want.ids)) or ()
        if want.since is not None and Source.ACCOUNTING not in failed:
            since = want.since
            records += ask(Source.ACCOUNTING, lambda: self.backend.accounting(since=since, user=self._user)) or ()
        if Source.ACCOUNTING in failed:
            answered.discard(Source.ACCOUNTING)
        if want.nodes and jobs is not None:
            nodes = ask(Source.NODES, lambda: self.backend.nodes(want.nodes)) or ()
        return Snapshot(
            cluster=self.backend.name,
            taken=now,
            jobs=tuple(jobs or ()),
            records=tuple(dict.fromkeys(records)),
            nodes=tuple(nodes),
            answered=frozenset(answered),
            failed=failed,
        )

    def _in_full(self, job: Job, ask: Ask) -> Job:
        """A job that is over, with what `scontrol show job` says of it beside squeue: the nearest thing to its record."""
        if not job.state.terminal:
            return job
        shown = ask(Source.CONTROLLER, lambda: self.backend.job(job.job_id))
        return job.merged(shown) if shown is not None and shown.attempt == job.attempt else job

    def pause(self) -> timedelta:
        """How long to wait before the next poll: the interval, doubled for each failure in a row, or stretched where the
        controller was slow twice in a row (one slow answer is how an outage ends), both up to ten minutes; with a fifth of
        jitter so that users do not poll in step."""
        doubled = self.interval * float(2 ** min(self._failures, 6))
        slow = timedelta(seconds=20 * min(self._took)) if len(self._took) > 1 and not self._failures else timedelta(0)
        base = max(self.interval, min(max(doubled, slow), _LONGEST))
        return base * (0.9 + 0.2 * self._rng.random())
