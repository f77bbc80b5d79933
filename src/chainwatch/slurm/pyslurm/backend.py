"""The cluster by pyslurm where that is faster and safe, and by the command line tools in everything else.

The queue and the nodes, which are asked in every poll, come from a worker process. What the library tells less of than
the tools do (exit codes of 128 and more, attempts of a requeued id, #SBATCH lines, site plugins) is never asked of it:
a poll in which a job has ended is answered by squeue, attempts come from sacct, and every action is a command.
"""

from __future__ import annotations

import importlib.metadata
import logging
import pwd
import re
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

from chainwatch.model.job import AttemptId, Job, Node
from chainwatch.model.probe import StepUsage
from chainwatch.slurm.backend import ClusterInfo, NoInformation, Submission
from chainwatch.slurm.cli import CliBackend
from chainwatch.slurm.pyslurm import rows
from chainwatch.slurm.pyslurm.process import CallFailed, Worker, WorkerFailed

T = TypeVar("T")
FAILURES = 3
"""In a row: then the library is left alone for a while."""
REST = 600.0
"""Seconds."""


def installed() -> bool:
    """This Python has pyslurm. Looked up, not imported: its import can end the process."""
    try:
        importlib.metadata.version("pyslurm")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


class PyslurmBackend:
    """See `Backend`. `insist` is `backend: pyslurm`: a release that differs from the cluster's is only warned of.

    Parameters
    ----------
    cli
        The same cluster by its tools.
    deadline
        Seconds for one poll, whatever happens: half of them for the library, the rest for the tools that step in.
    rest
        Seconds for which the library is left alone after `FAILURES` in a row.
    say
        Told in one sentence whenever the tools step in, and when the library is back.
    """

    def __init__(
        self,
        cli: CliBackend,
        worker: Worker,
        *,
        deadline: float = 60.0,
        insist: bool = False,
        rest: float = REST,
        say: Callable[[str], None] = logging.getLogger(__name__).warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = cli.name
        self._cli = cli
        self._worker = worker
        self._deadline = deadline
        self._insist = insist
        self._rest = rest
        self._say = say
        self._monotonic = monotonic
        self._checked = -1
        self._failures = 0
        self._rests_until = float("-inf")
        self._ends: dict[AttemptId, Job] = {}
        self.stands_in: str = ""
        """Why the command line tools answer in place of pyslurm; empty where pyslurm does."""

    # -- by the library -----------------------------------------------------------------------------------------------

    def queue(self, user: str | None) -> Sequence[Job]:
        """Every job that the controller remembers, of one user or of everybody."""
        begun = self._monotonic()
        found = self._by_library(lambda seconds: self._queue(user, seconds))
        tools = self._cli.within(self._left(begun))
        if found is None:
            return tools.queue(user)
        if any(self._known_end(job) is None for job in found if job.state.terminal):
            # Something has ended since the last poll: only the tools print how.
            found = tools.queue(user)
            self._ends = {job.attempt: job for job in found if job.state.terminal}
            return found
        return [self._known_end(job) or job for job in found]

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        """States and reasons of the nodes."""
        begun = self._monotonic()
        found = self._by_library(
            lambda seconds: rows.nodes(self._worker.call("nodes", sorted(names), deadline=seconds)),
        )
        return self._cli.within(self._left(begun)).nodes(names) if found is None else found

    def _queue(self, user: str | None, seconds: float) -> Sequence[Job]:
        uid = None if user is None else pwd.getpwnam(user).pw_uid
        names: dict[int, str] = {}

        def user_name(number: int) -> str:
            if number not in names:
                names[number] = _user_name(number)
            return names[number]

        return rows.jobs(self._worker.call("queue", uid, deadline=seconds), self.name, user_name)

    def _known_end(self, job: Job) -> Job | None:
        """The tools' row of a job that is over, if it was read already."""
        known = self._ends.get(job.attempt)
        return known if known is not None and known.state is job.state else None

    def _by_library(self, question: Callable[[float], T]) -> T | None:
        """The library's answer; None where the tools have to be asked, and that was said."""
        until = self._monotonic() + self._deadline / 2
        if self._monotonic() < self._rests_until:
            return None
        try:
            why = self._unfit(self._deadline / 2)
            if why:
                self._rests_until = float("inf")
                self._stand_in(f"{why}; the command line tools are used")
                return None
            answer = question(max(0.1, until - self._monotonic()))
        except (WorkerFailed, CallFailed, NoInformation, KeyError) as failure:
            self._failures += 1
            told = f"pyslurm gave no answer ({failure}); the command line tools step in"
            if self._failures >= FAILURES:
                self._failures = 0
                self._rests_until = self._monotonic() + self._rest
                told += f" for the next {self._rest / 60:g} minutes"
            self._stand_in(told)
            return None
        self._failures = 0
        if self.stands_in:
            self.stands_in = ""
            self._say(f"pyslurm answers again on {self.name}")
        return answer

    def _unfit(self, seconds: float) -> str:
        """Why the library must not be used here; empty where it may. Asked of each new process once."""
        if self._checked == self._worker.started:
            return ""
        library, cluster, name = self._worker.call("version", deadline=seconds)
        if self.name and name != self.name:
            return f"pyslurm speaks to the cluster {name}, not to {self.name}"
        if release(library) != release(cluster):
            differs = f"pyslurm {library} was made for another release than the cluster's {cluster}"
            if not self._insist:
                return differs
            if self._checked < 0:
                self._say(f"{differs}; it is used because the configuration says so")
        self._checked = self._worker.started
        return ""

    def _stand_in(self, why: str) -> None:
        self.stands_in = why
        self._say(f"{self.name}: {why}")

    def _left(self, begun: float) -> float:
        return max(1.0, self._deadline - (self._monotonic() - begun))

    # -- by the tools -------------------------------------------------------------------------------------------------

    def info(self) -> ClusterInfo:
        """Release, timers and reach of the cluster."""
        return self._cli.info()

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        """Attempts as accounting recorded them."""
        return self._cli.accounting(job_ids, since=since, user=user)

    def named(self, shown: str) -> Sequence[Job]:
        """Attempts of the one job that people call so."""
        return self._cli.named(shown)

    def job(self, job_id: int) -> Job | None:
        """One job as the controller has it."""
        return self._cli.job(job_id)

    def script(self, job_id: int) -> bytes | None:
        """The batch script that the controller has for a job."""
        return self._cli.script(job_id)

    def submit(self, submission: Submission) -> int:
        """sbatch."""
        return self._cli.submit(submission)

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        """scancel."""
        self._cli.cancel(job_id, signal=signal, pending_only=pending_only)

    def hold(self, job_id: int) -> None:
        """scontrol uhold."""
        self._cli.hold(job_id)

    def release(self, job_id: int) -> None:
        """scontrol release."""
        self._cli.release(job_id)

    def requeue(self, job_id: int) -> None:
        """scontrol requeue."""
        self._cli.requeue(job_id)

    def probe(self, job: Job, program: bytes, words: Sequence[str]) -> str:
        """srun."""
        return self._cli.probe(job, program, words)

    def usage(self, job: Job) -> Sequence[StepUsage]:
        """sstat."""
        return self._cli.usage(job)

    def close(self) -> None:
        """End the worker process."""
        self._worker.stop()


def release(version: str) -> tuple[int, ...]:
    """(22, 5) of `22.05.8` and of `22.5.0`."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
