"""What the simulated controller remembers of a job."""

from __future__ import annotations

from dataclasses import dataclass, field

from chainwatch.model.job import ExitCode, JobState
from chainwatch.simulation.clock import Timer
from chainwatch.simulation.process import Process, Script, StepEnd
from chainwatch.simulation.runs import Run
from chainwatch.simulation.sbatch import Request


@dataclass(slots=True, eq=False)
class SimJob:
    """One job record of the controller. An array is one record for its pending rest and one for each started task."""

    job_id: int
    request: Request
    program: Script
    submitted: float
    dependency: str = ""
    """What of the dependency is not met yet. Slurm drops each part for good once it is met: a requeue does not bring
    it back."""
    array_job_id: int | None = None
    tasks: tuple[int, ...] = ()
    """The pending rest of an array."""
    task: int | None = None
    """The task that this record is."""
    het_job_id: int | None = None
    """Leader of the het job that this is a component of."""
    het_offset: int = 0
    state: JobState = JobState.PENDING
    """Base state; `completing` is the flag beside it."""
    completing: bool = False
    reason: str = "None"
    hold: str = ""
    """Empty, `user` or `admin`."""
    hold_reason: str = ""
    """Why it is held, where it is not a person's hold."""
    begin: float = 0.0
    eligible: float | None = None
    start: float | None = None
    end: float | None = None
    preempted_at: float | None = None
    grace_ends: Timer | None = None
    nodes: tuple[str, ...] = ()
    cpus: int | None = None
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    cancelled_by: int | None = None
    doomed: int | None = None
    """Uid of somebody who cancelled it while it was on its way back into the queue."""
    restarts: int = 0
    failed_node: str | None = None
    steps: tuple[StepEnd, ...] = ()
    batch: tuple[JobState, ExitCode | None] | None = None
    """How the batch step ended."""
    process: Process | None = None
    run: Run | None = None
    timers: list[Timer] = field(default_factory=list)
    """Plans of the controller that die with the run: time limit, warnings."""

    @property
    def pending(self) -> bool:
        """Waits in the queue and holds no nodes."""
        return self.state is JobState.PENDING and not self.completing

    @property
    def ended(self) -> bool:
        """Its end is final and its nodes are free (IS_JOB_COMPLETED)."""
        return self.state.terminal and not self.completing

    @property
    def shown_state(self) -> JobState:
        """What squeue prints: the flag hides the base state."""
        return JobState.COMPLETING if self.completing else self.state

    @property
    def held(self) -> bool:
        """Priority 0."""
        return bool(self.hold or self.hold_reason)
