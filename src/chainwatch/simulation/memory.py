"""What the simulated slurmctld remembers: the queue, the truth about every run, and what waits while it is away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from chainwatch.model.job import JobState
from chainwatch.simulation.clock import Event, VirtualClock
from chainwatch.simulation.database import Database
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.nodes import SimNode
from chainwatch.simulation.runs import Run
from chainwatch.simulation.sbatch import Request
from chainwatch.simulation.settings import Settings
from chainwatch.simulation.views import seen_in_accounting

Listener = Callable[[SimJob, JobState], None]
"""Told of every end of an attempt, with the state that it is recorded under."""


class Memory(ABC):
    """Queue and memory. While the controller is not `up` (stopped or frozen), what it should do waits until it is."""

    def __init__(self, clock: VirtualClock, settings: Settings, random: Random, database: Database) -> None:
        self.clock, self.settings, self.random, self.database = clock, settings, random, database
        self.nodes = {spec.name: SimNode(spec, clock.time) for spec in settings.nodes}
        self.jobs: dict[int, SimJob] = {}
        """Every job that is remembered, by raw id."""
        self.runs: list[Run] = []
        """The truth about every attempt that ever started, oldest first."""
        self.accepted: list[tuple[float, int, Request]] = []
        """Every submission that was accepted: when, under which id, and what."""
        self.listeners: list[Listener] = []
        self.starts: list[Event] = []
        """Called at every start of a job."""
        self.arrivals: list[Callable[[SimJob], None]] = []
        """Told of every job that is accepted, before anything becomes of it."""
        self.up = True
        self.partition_up = True
        self.submit_limits: dict[str, int] = {}
        """Jobs that one user may have in the queue of a QOS (MaxSubmitJobs), `""` for all; more are refused."""
        self._next_id = settings.first_job_id
        self._scheduling = False
        self._deferred: list[Event] = []

    def later(self, event: Event) -> Event:
        """An event that needs the controller: it waits while the controller is away."""
        return lambda: event() if self.up else self._deferred.append(event)

    def resume(self) -> None:
        """The controller works again: everything that waited happens now, in its order."""
        self.up = True
        deferred, self._deferred = self._deferred, []
        for event in deferred:
            event()
        self.kick()

    def records(self, job_id: int) -> list[SimJob]:
        """All records that an id means: the job, and every task of the array of that id."""
        tasks = [j for j in self.jobs.values() if j.array_job_id == job_id and j.job_id != job_id]
        return ([self.jobs[job_id]] if job_id in self.jobs else []) + tasks

    @abstractmethod
    def kick(self) -> None:
        """Something changed: look for room soon."""

    @abstractmethod
    def _judge(self, job: SimJob) -> bool:
        """Whether a pending job may start; otherwise its reason is set."""

    def _only(self, job_id: int) -> list[SimJob]:
        return [self.jobs[job_id]] if job_id in self.jobs else []

    def _whole(self, job: SimJob) -> list[SimJob]:
        """The job with all its het components."""
        if job.het_job_id is None:
            return [job]
        return [j for j in self.jobs.values() if j.het_job_id == job.het_job_id]

    def _forget_later(self, job: SimJob) -> None:
        end = job.end

        def forget() -> None:
            if self.jobs.get(job.job_id) is job and job.ended and job.end == end:
                del self.jobs[job.job_id]

        wait = self.settings.min_job_age + self.random.uniform(0, self.settings.purge_period)
        self.clock.after(wait, self.later(forget))

    def _new_id(self) -> int:
        while True:
            job_id, self._next_id = self._next_id, self._next_id + 1
            if self._next_id > self.settings.max_job_id:
                self._next_id = self.settings.first_job_id
            if job_id not in self.jobs:
                return job_id

    def _record(self, job: SimJob, state: JobState | None = None) -> None:
        self.database.post(seen_in_accounting(job, self.settings, state), eligible=job.eligible is not None)
