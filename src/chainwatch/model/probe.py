"""What a look at the processes of a running job gave: each node's ranks and GPUs, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

STEP_LABEL = "chainwatch-probe"
"""Name of our own job steps (srun --job-name): evidence leaves them out. `srun chainwatch exec` is called `chainwatch`."""


class RankState(StrEnum):
    """What all processes of one rank did between two looks."""

    RUNS = "runs"
    """It used the processor, or moved bytes."""
    IDLE = "idle"
    STOPPED = "stopped"
    """By a signal (state T)."""
    TRACED = "traced"
    """Held by a debugger (state t)."""
    BLOCKED = "blocked"
    """A thread was in uninterruptible sleep (state D) at both looks, and no byte moved."""
    GONE = "gone"
    """Nothing but zombies is left of it."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a parallel program, all its processes together."""

    number: int
    step: str
    """The job step that it runs in; empty in the batch script."""
    pid: int
    name: str
    state: RankState
    cpu: float
    """Processors that it kept busy: 1.0 is one core."""
    moved: int
    """Bytes read and written between the looks."""
    wait: str = ""
    """The kernel function that a blocked one waits in, where it may be read."""
    expected_here: int = 0
    """Ranks that this node should have; 0 where nothing says it."""
    world: int = 0
    """Ranks that there should be on all nodes."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, as far as a step without GPUs of its own may see it."""

    index: int
    use: int | None
    """Per cent."""
    ecc: int | None
    """Uncorrected ECC errors since its last reset."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A GPU fault that a node's kernel told of."""

    ago: float
    """Seconds."""
    text: str


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One node's answer."""

    node: str
    ranks: tuple[Rank, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str = ""
    faults: tuple[Fault, ...] = ()
    """Told of since the job began there, oldest first."""
    problem: str = ""
    """Why the look is not whole."""


@dataclass(frozen=True, slots=True)
class StepUsage:
    """One step as Slurm measures it (sstat), the fallback where no step may be started."""

    step: str
    tasks: int
    average: float
    """Processor seconds so far, of an average task."""
    least: float
    """Of the task that used least."""
    node: str
    task: int
    """Where that task is, and which."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """All that one probe of a job brought back."""

    nodes: tuple[NodeLook, ...] = ()
    silent: tuple[str, ...] = ()
    """Nodes of the job that gave no answer."""
    usage: tuple[tuple[StepUsage, StepUsage], ...] = ()
    """Two looks at each step, where only sstat answered."""
    span: float = 0.0
    """Seconds between those two."""
    refused: str = ""
    """Why no step could be started; empty if one was."""
    stacks: Mapping[int, str] = field(default_factory=dict)
    """py-spy's words by rank, where they were asked for."""


class Odd(StrEnum):
    """What tells one rank or node from the others."""

    NONE = "none"
    GPU_FAULT = "gpu_fault"
    RANK_GONE = "rank_gone"
    RANK_STOPPED = "rank_stopped"
    RANK_IDLE = "rank_idle"
    RANK_BLOCKED = "rank_blocked"
    RANK_BUSY = "rank_busy"
    GPU_IDLE = "gpu_idle"
    NODE_SILENT = "node_silent"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe means."""

    at: datetime
    odd: Odd
    sentence: str
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    sure: bool = False
    """No healthy run looks like this, so that a job may be ended for it."""
