"""How the rest of chainwatch talks to a Slurm cluster, whatever is behind it.

Implementations: `slurm.cli` (squeue, sacct, scontrol, sbatch) and `simulation`. Both pass one contract suite, and so must
any other.

The world has three answers. *Known* is a value. *Absent* is `None`, or an id that is missing from an answer that is
known to be complete. *No information* is always an exception, `NoInformation`: a non-zero exit, a time-out, an empty or
cut reply, an error on stderr. No method ever returns an empty list because something failed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from chainwatch.model.job import Job, Node
from chainwatch.model.probe import StepUsage


class SlurmError(Exception):
    """Something about Slurm, as one sentence for people."""


class NoInformation(SlurmError):
    """Slurm did not answer, or not in full: nothing may be concluded from it."""


class SubmitUncertain(NoInformation):
    """sbatch gave no answer, but the controller may have accepted the job: look the token up, do not submit again."""


class Refusal(StrEnum):
    """What a refused request calls for."""

    WAIT = "wait"
    """Passes by itself: a limit on submitted jobs, a partition that is down, a busy controller."""
    PERSON = "person"
    """Needs a person: a wrong account or QOS, an option that cannot be satisfied, a script that is gone."""


class Refused(SlurmError):
    """Slurm understood the request and said no. Nothing was changed."""

    def __init__(self, message: str, calls_for: Refusal) -> None:
        super().__init__(message)
        self.calls_for = calls_for


@dataclass(frozen=True, slots=True)
class Submission:
    """All of one sbatch call."""

    script: str
    """Absolute path of the batch script."""
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """sbatch options before the script, each one argv item (`--qos=extra`), comment and dependency included."""
    directory: str = ""
    """Working directory of the sbatch call (and so, without --chdir, of the job)."""
    environment: tuple[tuple[str, str], ...] = field(default=())
    """The complete environment of the sbatch call; nothing is inherited from the daemon."""
    umask: int = 0o022


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What the controller says of itself."""

    name: str
    version: str
    """`22.05.8`"""
    min_job_age: int
    """Seconds that the controller remembers an ended job."""
    message_timeout: int
    """Seconds after which a client gives up (MessageTimeout)."""
    accounting: bool
    """sacct can be asked."""


class Backend(Protocol):
    """One cluster. Calls block, each within its own deadline; they raise `NoInformation` when it passes."""

    name: str
    """Name of the cluster, as in `AttemptId.cluster`."""

    def info(self) -> ClusterInfo:
        """Release, timers and reach of the cluster. Raises `NoInformation`."""
        ...

    def queue(self, user: str | None) -> Sequence[Job]:
        """Every job of `user` (None: of everybody) that the controller remembers, ended ones inside MinJobAge included.

        One squeue call, arrays expanded to tasks as far as Slurm knows them. An empty sequence is an answer: the
        controller was reached and has no such job. Raises `NoInformation`.
        """
        ...

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        """Attempts as accounting recorded them, with steps, every attempt of a requeued id, oldest first.

        Either by raw ids (chunked to 64 KiB of arguments) or everything of `user` since a time. An id without a row is
        *not known to accounting*, which is not an end. Raises `NoInformation`, also where there is no accounting.
        """
        ...

    def job(self, job_id: int) -> Job | None:
        """One job as the controller has it (`scontrol show job`): paths, command, dependency, flags.

        None: the controller does not remember it (`Invalid job id specified`), no more than that. Raises
        `NoInformation`.
        """
        ...

    def script(self, job_id: int) -> bytes | None:
        """The batch script that the controller has for a job; None where it has none. Raises `NoInformation`."""
        ...

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        """States and reasons of the nodes (all, or those named). Raises `NoInformation`."""
        ...

    def submit(self, submission: Submission) -> int:
        """Run sbatch; the raw id of the new job.

        Raises `Refused` where Slurm said no, `SubmitUncertain` where it may have been accepted.
        """
        ...

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        """scancel; with `signal` (`USR1`, `TERM`) only send it, to the batch shell and all steps.

        `pending_only`: do nothing if it started meanwhile (`scancel --state=PENDING`). A job that is gone already is no
        error. Raises `Refused`, `NoInformation`.
        """
        ...

    def hold(self, job_id: int) -> None:
        """scontrol uhold. Raises `Refused`, `NoInformation`."""
        ...

    def release(self, job_id: int) -> None:
        """scontrol release. Raises `Refused` (an admin's hold, among others), `NoInformation`."""
        ...

    def requeue(self, job_id: int) -> None:
        """scontrol requeue. Raises `Refused`, `NoInformation`."""
        ...


@runtime_checkable
class Inside(Protocol):
    """Looking at the processes of a running job. A backend that has none of this is not asked: nothing is concluded."""

    def probe(self, job: Job, program: bytes, words: Sequence[str]) -> str:
        """Run a Python program with these arguments once on each node of the job, in a step of our own that takes
        nothing of the job and ends well whatever it meets. What all nodes printed, mixed by lines.

        A node that does not answer in time is missing from it. Raises `Refused` where no such step may be started,
        `NoInformation` where nobody answered.
        """
        ...

    def usage(self, job: Job) -> Sequence[StepUsage]:
        """What Slurm itself measures of the job's steps (sstat). Raises `NoInformation`."""
        ...
