"""The simulated cluster: scripts, controller, database and nodes, and all that people and fate may do to them.

What a daemon may ask is in `backend.py`. Here is the other side: users and administrators, hardware, outages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from enum import StrEnum
from random import Random

from chainwatch.model.job import Job, Node, Source
from chainwatch.simulation.clock import Event, VirtualClock
from chainwatch.simulation.controller import Controller
from chainwatch.simulation.database import Database
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.process import Script, batch
from chainwatch.simulation.runs import Run
from chainwatch.simulation.sbatch import parse
from chainwatch.simulation.settings import Settings
from chainwatch.simulation.views import seen_in_queue
from chainwatch.slurm.backend import Refusal, Refused, Submission


class Reach(StrEnum):
    """How the controller answers."""

    UP = "up"
    DOWN = "down"
    """Nobody listens: connections are refused."""
    FROZEN = "frozen"
    """It listens but does not answer: clients time out, and what they sent is done when it wakes."""


class SimulatedCluster:
    """One cluster in virtual time."""

    def __init__(self, clock: VirtualClock, settings: Settings | None = None, seed: int = 0) -> None:
        self.clock = clock
        self.settings = settings or Settings()
        self.random = Random(seed)
        self.database = Database(clock, self.settings, self.random)
        self.controller = Controller(clock, self.settings, self.random, self.database)
        self.reach = Reach.UP
        self.refusal: Refused | None = None
        """While set, every submission of the served user is refused with it."""
        self.authentication = True
        """munge answers; without it no client gets anything."""
        self.directories: set[str] | None = None
        """Directories that exist; None: any."""
        self._scripts: dict[str, tuple[bytes, Script]] = {}
        self._mailbox: list[Event] = []

    # -- what exists -----------------------------------------------------------------------------------------------

    def add_script(self, path: str, program: Script, content: bytes = b"#!/bin/bash\n") -> None:
        """A batch script at `path`: its text (the `#SBATCH` lines count) and what it does."""
        self._scripts[path] = (content, program)

    def remove_script(self, path: str) -> None:
        """The user deletes the script; jobs that were submitted have their copy."""
        self._scripts.pop(path, None)

    def content(self, path: str) -> bytes:
        """The text of a script. Raises FileNotFoundError."""
        if path not in self._scripts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._scripts[path][0]

    @property
    def jobs(self) -> Sequence[SimJob]:
        """Every job that the controller remembers."""
        return tuple(self.controller.jobs.values())

    @property
    def runs(self) -> Sequence[Run]:
        """The truth about every attempt that ever started."""
        return self.controller.runs

    def on_end(self, listener: Callable[[SimJob], None]) -> None:
        """Call `listener` at every end of an attempt."""
        self.controller.listeners.append(lambda job, state: listener(job))

    # -- what clients ask ------------------------------------------------------------------------------------------

    def submit(self, submission: Submission, user: str | None = None) -> int:
        """sbatch by a user (by default the one whom the daemon serves). Raises `Refused`."""
        if self.refusal is not None and (user is None or user == self.settings.user):
            raise self.refusal
        if submission.script not in self._scripts:
            message = f"sbatch: error: Unable to open file {submission.script}"
            raise Refused(message, Refusal.PERSON)
        if self.directories is not None and submission.directory not in self.directories:
            raise Refused(f"the working directory {submission.directory} is missing", Refusal.PERSON)
        content, program = self._scripts[submission.script]
        requests = parse(submission, content, user or self.settings.user, self.settings)
        return self.controller.submit(requests, program)

    def queue(self, user: str | None) -> list[Job]:
        """squeue, all states."""
        jobs = [j for j in self.controller.jobs.values() if user is None or j.request.user == user]
        return [seen_in_queue(job, self.settings) for job in sorted(jobs, key=lambda j: j.job_id)]

    def accounting(self, ids: Collection[int], since: datetime | None, user: str | None) -> list[Job]:
        """sacct -D, by raw ids or since a time."""
        return self.database.rows(ids, since, user)

    def job(self, job_id: int) -> Job | None:
        """scontrol show job."""
        job = self.controller.jobs.get(job_id)
        return None if job is None else seen_in_queue(job, self.settings, Source.CONTROLLER)

    def script(self, job_id: int) -> bytes | None:
        """The script as it was when it was submitted."""
        job = self.controller.jobs.get(job_id)
        return None if job is None else job.request.content

    def node_views(self, names: Collection[str] = ()) -> list[Node]:
        """sinfo."""
        nodes = self.controller.nodes.values()
        return [n.view(self.settings.partition) for n in nodes if not names or n.name in names]

    def post(self, request: Event) -> None:
        """A request that reaches a frozen controller: it is carried out when it wakes, unless it is restarted."""
        self._mailbox.append(request)

    # -- outages ---------------------------------------------------------------------------------------------------

    def stop_controller(self) -> None:
        """slurmctld ends: jobs run on, nothing starts, and what clients had sent to a frozen one is lost."""
        self.reach, self.controller.up = Reach.DOWN, False
        self._mailbox.clear()

    def freeze_controller(self) -> None:
        """slurmctld hangs."""
        if self.reach is Reach.UP:
            self.reach, self.controller.up = Reach.FROZEN, False

    def start_controller(self) -> None:
        """slurmctld is back, or wakes: what happened meanwhile is noticed now, and what waited in its socket done."""
        if self.reach is Reach.UP:
            return
        self.reach = Reach.UP
        self.controller.resume()
        mailbox, self._mailbox = self._mailbox, []
        for request in mailbox:
            request()

    def stop_accounting(self) -> None:
        """slurmdbd ends."""
        self.database.stop()

    def start_accounting(self) -> None:
        """slurmdbd is back; it catches up after a while."""
        self.database.start()

    # -- people ----------------------------------------------------------------------------------------------------

    def cancel(self, job_id: int, by: str | None = None) -> None:
        """scancel by a person; lost where the controller is away."""
        if self.reach is Reach.UP:
            self.controller.cancel_all(job_id, self.settings.uid(by or self.settings.user))

    def preempt(self, job_id: int) -> None:
        """A more urgent job needs the nodes of this one."""
        job = self.controller.jobs.get(job_id)
        if job is not None and self.reach is Reach.UP:
            self.controller.preempt(job)

    def occupy(self, nodes: int, seconds: float, qos: str = "normal", user: str = "bob") -> None:
        """Somebody else's job of that QOS takes whole nodes; it pushes aside what it may."""
        self.add_script("/home/bob/job.sh", batch(seconds))
        options = (f"--nodes={nodes}", "--exclusive", f"--qos={qos}", f"--time={round(seconds / 60) + 10}")
        if self.reach is Reach.UP:
            self.submit(Submission("/home/bob/job.sh", options=options, directory="/home/bob"), user)

    def drain(self, name: str, reason: str) -> None:
        """An administrator drains a node: no new jobs."""
        node = self.controller.nodes[name]
        node.drained, node.reason, node.reason_at = True, reason, self.clock.time

    def set_down(self, name: str, reason: str) -> None:
        """scontrol update State=DOWN: its jobs end at once, and their processes are killed."""
        if self.reach is Reach.UP:
            self.controller.node_failed(self.controller.nodes[name], reason)

    def restore(self, name: str) -> None:
        """An administrator puts a node back to work (State=RESUME), or slurmd is back: orphans are killed."""
        node = self.controller.nodes[name]
        given_up = node.down
        node.down = node.drained = node.silent = False
        node.reason, node.reason_at = "", None
        if not node.answers:
            node.answers = True
            orphans, node.orphans = node.orphans, []
            for process in orphans:
                process.kill()
            for job_id, (_, process) in list(node.jobs.items()):
                if not given_up and process.unreachable:
                    self.controller.reached_again(job_id, process)
        self.controller.kick()

    # -- hardware --------------------------------------------------------------------------------------------------

    def kill_node(self, name: str, *, power: bool = False) -> None:
        """A node stops answering. Its processes live on and write, unless its `power` went.

        The controller takes it for alive for 25 to 45 s more; then its jobs are NODE_FAIL, or come back.
        """
        node = self.controller.nodes[name]
        if not node.answers:
            return
        node.answers = False
        for _, process in list(node.jobs.values()):
            process.unreachable = process.launch.nodes[0] == name
            if power:
                process.unreachable = True
                process.kill()
        if power:
            node.booted = self.clock.time

        def silent() -> None:
            node.silent = not node.answers

        def dead() -> None:
            if not node.answers and not node.down:
                self.controller.node_failed(node, "Not responding")

        later = self.controller.later
        self.clock.after(self.settings.not_responding_after, later(silent))
        self.clock.after(self.random.uniform(*self.settings.node_dead_after), later(dead))
