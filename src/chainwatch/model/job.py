"""What Slurm says: jobs, steps, nodes, and the snapshot of one poll.

A field that Slurm did not give is None, never a made-up zero. Times are aware UTC datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum


class JobState(StrEnum):
    """Every state word of Slurm 20.11 to 26.05 (slurm_protocol_defs.c, job_state_string), and `UNKNOWN` for any other.

    The state of a live job may be shown by a flag alone (`COMPLETING`, `RESIZING`, …); it is then live all the same.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CONFIGURING = "CONFIGURING"
    COMPLETING = "COMPLETING"
    RESIZING = "RESIZING"
    SIGNALING = "SIGNALING"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    POWER_UP_NODE = "POWER_UP_NODE"
    UPDATE_DB = "UPDATE_DB"
    EXPEDITING = "EXPEDITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REVOKED = "REVOKED"
    UNKNOWN = "UNKNOWN"

    @property
    def terminal(self) -> bool:
        """The attempt is over, as far as the source that gave this state knows. `UNKNOWN` is not."""
        return self in _TERMINAL

    @property
    def may_return(self) -> bool:
        """Terminal, but Slurm itself may requeue the same job id: look at the queue before believing it."""
        return self in _MAY_RETURN

    @property
    def on_nodes(self) -> bool:
        """The job holds nodes, so its processes may run and write."""
        return self in _ON_NODES


_TERMINAL = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.PREEMPTED,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.LAUNCH_FAILED,
        JobState.RECONFIG_FAIL,
        JobState.REVOKED,
    }
)
_MAY_RETURN = frozenset({JobState.PREEMPTED, JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.LAUNCH_FAILED})
_ON_NODES = frozenset(
    {
        JobState.RUNNING,
        JobState.SUSPENDED,
        JobState.CONFIGURING,
        JobState.COMPLETING,
        JobState.RESIZING,
        JobState.SIGNALING,
        JobState.STAGE_OUT,
        JobState.STOPPED,
        JobState.POWER_UP_NODE,
        JobState.EXPEDITING,
    }
)


class Source(StrEnum):
    """Where a fact about jobs or nodes came from."""

    QUEUE = "squeue"
    CONTROLLER = "scontrol"
    ACCOUNTING = "sacct"
    NODES = "sinfo"
    END_RECORD = "end record"


@dataclass(frozen=True, slots=True)
class ExitCode:
    """`code:signal` as Slurm prints it. The job row alone does not say what happened (see `Job.steps`)."""

    code: int
    signal: int = 0

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.signal == 0

    def __str__(self) -> str:
        return f"{self.code}:{self.signal}"


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """Identity of one run of one job. Job ids are reused, and a requeue keeps the id but resets the submit time."""

    cluster: str
    job_id: int
    """The raw id (JobIDRaw): of an array task its own, of a het job component its own."""
    submitted: datetime

    def __str__(self) -> str:
        return f"{self.cluster}/{self.job_id}@{self.submitted:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Step:
    """One job step, as accounting knows it."""

    name: str
    """The part after the dot: `batch`, `extern`, `interactive`, `0`, `1`, …"""
    state: JobState
    exit: ExitCode | None
    """None where Slurm prints nothing (the `.batch` of a job whose node died)."""
    label: str = ""
    """The step's job name (srun --job-name): probes of our own are told by it."""
    start: datetime | None = None
    end: datetime | None = None
    nodes: tuple[str, ...] = ()
    max_rss: int | None = None
    """Bytes, the largest of any task."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt as one source describes it. `merged` joins what several sources say of the same attempt."""

    attempt: AttemptId
    shown_id: str
    """What people type: `123`, `123_4` for an array task, `123+1` for a het component."""
    state: JobState
    source: Source
    raw_state: str = ""
    """Slurm's own words, `CANCELLED by 1001` included; useful where the state is UNKNOWN."""
    reason: str = ""
    name: str = ""
    user: str = ""
    partition: str = ""
    """One partition once started; while pending possibly a list, as Slurm prints it."""
    qos: str = ""
    account: str = ""
    comment: str = ""
    array_job_id: int | None = None
    array_task: str | None = None
    """`4`, or for the pending rest of an array `[5-9%2]`."""
    array_limit: int | None = None
    """The `%N` of the array: how many of its tasks may run at once. 1 makes the array one chain."""
    het_job_id: int | None = None
    start: datetime | None = None
    """When it started; None while pending (a forecast is not a start)."""
    end: datetime | None = None
    """When it ended; None while it has not."""
    preempted_at: datetime | None = None
    """The controller's PreemptTime: lives only as long as the controller remembers the job."""
    suspended_for: timedelta | None = None
    time_limit: timedelta | None = None
    """None: unlimited or not known."""
    nodes: tuple[str, ...] = ()
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    cancelled_by: int | None = None
    """Uid behind a cancellation, where Slurm tells."""
    restarts: int | None = None
    requeue: bool | None = None
    """The job's Requeue flag: Slurm may run the same id again."""
    priority: int | None = None
    """0 means held."""
    dependency: str = ""
    failed_node: str | None = None
    directory: str = ""
    command: str = ""
    """Script and arguments, as scontrol shows them."""
    submit_line: str = ""
    stdout: str = ""
    stderr: str = ""
    gpus: int | None = None
    cpus: int | None = None
    steps: tuple[Step, ...] = ()

    @property
    def cluster(self) -> str:
        return self.attempt.cluster

    @property
    def job_id(self) -> int:
        return self.attempt.job_id

    @property
    def held(self) -> bool:
        return self.state is JobState.PENDING and (self.priority == 0 or self.reason in _HELD_REASONS)

    def step(self, name: str) -> Step | None:
        return next((s for s in self.steps if s.name == name), None)

    def merged(self, other: Job) -> Job:
        """This job with every gap filled from `other`, which describes the same attempt.

        A terminal state wins over a live one, accounting wins over the controller among terminal states, and a
        PreemptTime that anybody saw is kept.
        """
        if other.attempt != self.attempt:
            raise ValueError(f"{other.attempt} is not {self.attempt}: facts of two attempts cannot be joined")
        first, second = self, other
        if other.state.terminal and (not self.state.terminal or other.source is Source.ACCOUNTING):
            first, second = other, self
        filled = {
            name: getattr(second, name)
            for name in first.__dataclass_fields__
            if getattr(first, name) in (None, "", ()) and getattr(second, name) not in (None, "", ())
        }
        if first.array_task is None and second.array_task is not None:
            # Accounting now and then has the row of a task that was over at once without its array (seen on 22.05).
            filled["shown_id"] = second.shown_id
        return replace(first, **filled)


_HELD_REASONS = frozenset(
    {
        "JobHeldUser",
        "JobHeldAdmin",
        "launch_failed_requeued_held",
        "launch failed requeued held",
        "job_requeued_in_held_state",
        "job requeued in held state",
    }
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node as sinfo/scontrol shows it."""

    name: str
    state: str
    """Base state in lower case: idle, mixed, allocated, down, unknown, …"""
    flags: frozenset[str] = frozenset()
    """drain, not_responding, maintenance, reserved, powering_down, …"""
    reason: str = ""
    reason_by: str = ""
    reason_at: datetime | None = None
    booted_at: datetime | None = None
    partitions: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return self.state in {"idle", "mixed", "allocated", "completing"} and not (
            self.flags & {"drain", "not_responding", "maintenance", "fail", "powered_off", "powering_down"}
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What Slurm said in one poll of one cluster.

    A source that did not answer is in `failed` with its reason, and takes away a capability: code that needs it must
    ask `answered` first. It never yields empty data.
    """

    cluster: str
    taken: datetime
    jobs: tuple[Job, ...] = ()
    """Jobs of the queue, terminal ones inside MinJobAge included."""
    records: tuple[Job, ...] = ()
    """Attempts of accounting, for the ids that were asked for; with duplicates of requeued jobs."""
    nodes: tuple[Node, ...] = ()
    answered: frozenset[Source] = frozenset()
    failed: Mapping[Source, str] = field(default_factory=dict)

    def knows(self, source: Source) -> bool:
        return source in self.answered
