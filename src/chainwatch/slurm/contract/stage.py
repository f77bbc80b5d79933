"""Where the contract is played: a backend, and a way to make things happen to its cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from chainwatch.slurm.backend import Backend, Submission

T = TypeVar("T")


class Can(StrEnum):
    """What a stage may or may not be able to bring about. A case that needs more is skipped, and says so."""

    SUBMIT = "submit jobs"
    ACCOUNTING = "keep accounting"
    STEPS = "run job steps"
    ARRAYS = "run job arrays"
    LOOK_INSIDE = "look inside running jobs"
    MEASURE = "measure running job steps"
    HET_JOBS = "run het jobs"
    TIME_LIMIT = "enforce time limits"
    PREEMPT = "preempt by cancelling"
    PREEMPT_REQUEUE = "preempt by requeueing"
    FAIL_NODE = "let a node fail"
    SUBMIT_LIMIT = "limit the number of submitted jobs"
    CONTROLLER_DOWN = "stop the controller"
    CONTROLLER_FROZEN = "freeze the controller"
    ACCOUNTING_DOWN = "stop accounting"
    AUTHENTICATION_DOWN = "stop authentication"
    REPLY_LOST_AFTER = "lose sbatch's reply after the job was accepted"
    REPLY_LOST_BEFORE = "lose sbatch's request before the controller has it"


@dataclass(frozen=True, slots=True)
class Program:
    """What a job does. Every stage makes a batch script of it in its own way."""

    seconds: float = 0.0
    """How long it runs by itself, after `steps`."""
    code: int = 0
    """Exit code of the batch script, unless a signal of `on` came before."""
    killed_by: int = 0
    """Signal that the batch script sends to itself at its end, in place of exiting."""
    steps: tuple[int, ...] = ()
    """Exit codes of short job steps that run one after the other at the beginning, .0, .1, …"""
    in_step: bool = False
    """The `seconds` are spent in one more job step, and the batch script returns what it returned."""
    deaf: bool = False
    """It ignores SIGTERM and dies of nothing but SIGKILL: ended early, it stays COMPLETING for a while."""
    on: tuple[tuple[str, int], ...] = ()
    """(`TERM`, 3): when this signal comes during `seconds`, end at once with this code (of the step if `in_step`)."""


class Stage(Protocol):
    """A cluster that does what a case asks for. The private cluster, and the simulated one.

    Time stays behind `wait_until`: a real stage looks again and again, a simulated one turns its clock.
    """

    backend: Backend
    user: str
    """Whose jobs `submission` makes; the name in `Job.user`."""
    directory: str
    """Working directory of the jobs; it exists."""
    environment: tuple[tuple[str, str], ...]
    """Environment of the sbatch calls."""
    can: frozenset[Can]

    def now(self) -> datetime:
        """The cluster's clock: aware, UTC."""
        ...

    def write(self, program: Program) -> str:
        """A batch script that does this; its absolute path."""
        ...

    def wait_until(self, question: Callable[[], T | None], seconds: float, what: str) -> T:
        """The first answer of `question` that is not None; `NoInformation` counts as none yet.

        Raises `Broken` when `seconds` passed without one, and lets every other exception through.
        """
        ...

    def preemptable(self, *, requeue: bool) -> tuple[str, ...]:
        """sbatch options of a job that can be preempted with a grace time; with requeue, its id comes back."""
        ...

    def preempt(self, job_id: int) -> None:
        """Let something more important claim the nodes of this running job, and leave when they are free."""
        ...

    def fail_node(self, node: str) -> None:
        """Let a node go down, so that the controller ends the jobs on it as NODE_FAIL."""
        ...

    def restore_node(self, node: str) -> None:
        """Bring the node back into service."""
        ...

    def limit_submissions(self, number: int) -> AbstractContextManager[tuple[str, ...]]:
        """While it lasts, at most `number` jobs with the options it gives may be submitted."""
        ...

    def outage(self, of: Can) -> AbstractContextManager[None]:
        """While it lasts, the part of the cluster does not work (or the next sbatch loses its reply)."""
        ...


class Broken(AssertionError):
    """The contract is not kept: one sentence with what was promised and what came."""


class CannotPlay(Exception):
    """The stage cannot bring about what the case is about; its text says what."""


def expect(kept: bool, sentence: str) -> None:
    """Raise `Broken` with `sentence` unless `kept`. In place of `assert`, which `python -O` drops."""
    if not kept:
        raise Broken(sentence)


def submission(stage: Stage, program: Program, *options: str, args: tuple[str, ...] = ()) -> Submission:
    """All of one sbatch call that runs `program` on this stage."""
    return Submission(
        script=stage.write(program),
        args=args,
        options=options,
        directory=stage.directory,
        environment=stage.environment,
    )
