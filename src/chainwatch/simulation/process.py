"""What runs inside a simulated job: the programs, and the processes that carry them.

A batch script is simulated by a `Program`: an object that is told when its processes start, when a signal reaches them
and when they are killed, and that plans its own events meanwhile. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from chainwatch.model.job import ExitCode, JobState
from chainwatch.simulation.clock import Event, Timer, VirtualClock
from chainwatch.simulation.runs import Run


@dataclass(frozen=True, slots=True)
class Launch:
    """What a batch script sees when it starts."""

    job_id: int
    submitted: float
    restarts: int
    array_task: int | None
    nodes: tuple[str, ...]
    script: str
    args: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    stdout: str


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How one srun step ended."""

    name: str
    state: JobState
    exit: ExitCode
    label: str = ""


class Program(Protocol):
    """One run of one batch script."""

    def start(self) -> None:
        """The first line of the script."""
        ...

    def signalled(self, signal: str, batch: bool) -> None:
        """A signal (`TERM`, `USR1`) reached the steps, and with `batch` the batch shell too."""
        ...

    def killed(self) -> None:
        """SIGKILL, or the power went: whatever was being written is cut. Nothing of it runs afterwards."""
        ...

    def output(self, line: str) -> None:
        """Slurm writes a line into the job's output."""
        ...


Script = Callable[["Process"], Program]
"""Makes the program of one run from the processes that carry it."""


class Process:
    """The processes of one run of one job, all nodes together."""

    def __init__(self, clock: VirtualClock, launch: Launch, run: Run, ended: Callable[[Process], None]) -> None:
        self.clock = clock
        self.launch = launch
        self.run = run
        """Where the program notes what really happened."""
        self.alive = True
        self.code = ExitCode(0)
        self.steps: list[StepEnd] = []
        self.unreachable = False
        """slurmd on their first node is dead: no signal reaches them, and nobody hears of their end."""
        self._ended = ended
        self._program: Program | None = None

    def start(self, script: Script) -> None:
        """Begin to run."""
        self._program = script(self)
        self._program.start()

    def after(self, seconds: float, event: Event) -> Timer:
        """Plan an event of the program itself: it does not happen if the processes are dead by then."""

        def unless_dead() -> None:
            if self.alive:
                event()

        return self.clock.after(seconds, unless_dead)

    def step(self, name: str, code: int = 0, signal: int = 0, label: str = "") -> None:
        """Record the end of an srun step: COMPLETED for 0:0, CANCELLED where a signal ended it, FAILED otherwise."""
        state = JobState.CANCELLED if signal else JobState.FAILED if code else JobState.COMPLETED
        self.steps.append(StepEnd(name, state, ExitCode(code, signal), label))

    def exit(self, code: int = 0, signal: int = 0) -> None:
        """The batch script ends by itself."""
        if self.alive:
            self.alive = False
            self.code = ExitCode(code, signal)
            self._ended(self)

    def signal(self, signal: str, *, batch: bool) -> None:
        """Deliver a signal, where it can be delivered."""
        if self.alive and not self.unreachable and self._program is not None:
            self._program.signalled(signal, batch)

    def output(self, line: str) -> None:
        """Slurm's own line in the job's output; lost where the node is dead."""
        if not self.unreachable and self._program is not None:
            self._program.output(line)

    def kill(self, signal: int = 9) -> None:
        """End everything at once."""
        if not self.alive:
            return
        self.alive = False
        self.code = ExitCode(0, signal)
        if self._program is not None:
            self._program.killed()
        self._ended(self)


@dataclass(slots=True)
class Batch:
    """A plain batch script: runs for some seconds, then exits. A `Script` for everything that is no training."""

    process: Process
    seconds: float | None
    """None: until it is killed."""
    code: int = 0
    signal: int = 0
    steps: tuple[tuple[str, int, int], ...] = ()
    """srun steps that it runs: name, exit code, signal."""
    traps_term: int | None = None
    """With a number: SIGTERM makes it exit with that code; None: it dies of it."""
    step_dies_of_term: bool = False
    """A SIGTERM to the steps alone ends it too (the batch script returns its step's code)."""
    ignores_term: bool = False

    def start(self) -> None:
        if self.seconds is not None:
            self.process.after(self.seconds, self._end)

    def signalled(self, signal: str, batch: bool) -> None:
        if signal != "TERM" or self.ignores_term or not (batch or self.step_dies_of_term):
            return
        if self.traps_term is not None:
            self.process.exit(self.traps_term)
        else:
            self.process.exit(0, 15)

    def killed(self) -> None:
        """A plain script leaves nothing behind."""

    def output(self, line: str) -> None:
        """It has no log."""

    def _end(self) -> None:
        for name, code, signal in self.steps:
            self.process.step(name, code, signal)
        self.process.exit(self.code, self.signal)


def batch(seconds: float | None, code: int = 0, signal: int = 0, **more: object) -> Script:
    """A `Script` that runs for `seconds` and exits with `code` or dies of `signal`; `more` as in `Batch`."""
    return lambda process: Batch(process, seconds, code, signal, **more)  # type: ignore[arg-type]
