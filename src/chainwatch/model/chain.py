"""A chain's state, its history, and what is decided about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from chainwatch.model.checkpoint import Checkpoint
from chainwatch.model.job import Job
from chainwatch.model.verdict import Verdict


class Mode(StrEnum):
    """What chainwatch may do for a chain."""

    OBSERVE = "observe"
    """Says what it would do."""
    ACT = "act"


class Desired(StrEnum):
    """What people want of a chain: written by commands, read by the next tick."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"
    DONE = "done"
    """A person's word that it is finished."""


class ChainState(StrEnum):
    """What a person sees in `status`."""

    NEW = "new"
    """Registered, and nothing was submitted yet."""
    PENDING = "pending"
    RUNNING = "running"
    RECOVERING = "recovering"
    """An attempt ended; facts, nodes or checkpoints are being checked (bounded by five minutes)."""
    WAITING = "waiting"
    """Until a time, for a reason that is recorded."""
    RESTING = "resting"
    """Retries are exhausted, or it needs a person's answer."""
    STOPPED = "stopped"
    """A retry cannot help; cause and advice are recorded."""
    DONE = "done"
    PAUSED = "paused"

    @property
    def quiet(self) -> bool:
        """No job is expected, and a person knows why."""
        return self in {ChainState.RESTING, ChainState.STOPPED, ChainState.DONE, ChainState.PAUSED, ChainState.NEW}


@dataclass(frozen=True, slots=True)
class FromCheckpoint:
    """Resume from this intact checkpoint."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class FromScratch:
    """Start at step 0, and why that loses nothing (or who allowed it)."""

    why: str


Resume: TypeAlias = FromCheckpoint | FromScratch


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Nothing to do: a job lives, the chain is done, somebody else resubmits, or mode and site forbid acting."""

    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before `until`, then decide anew."""

    until: datetime
    why: str
    needs_person: bool = False
    tell: str = ""
    """People are told of this, once, though nothing is asked of them."""


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Submit the next job of the chain."""

    resume: Resume
    why: str
    exclude: tuple[str, ...] = ()
    """Nodes to keep away from, by name."""
    extra: tuple[str, ...] = ()
    """Further sbatch options for this recovery job."""
    set_aside: tuple[Checkpoint, ...] = ()
    """Damaged or incomplete checkpoints newer than the one resumed from, which a naive resume would pick."""
    avoid: tuple[str, ...] = ()
    """Paths of checkpoints that look intact, and that the job must not load all the same."""
    tell: str = ""
    """People are told of this, once, though nothing is asked of them."""


@dataclass(frozen=True, slots=True)
class EndJob:
    """End a live job (a confirmed hang, our own duplicate)."""

    job: Job
    why: str
    signal: str | None = None
    """Sent first, so that the job leaves evidence; None: it is cancelled at once."""
    grace: timedelta = timedelta(0)
    """Between the signal and the cancellation."""
    suspects: tuple[str, ...] = ()
    """Nodes that are to blame."""


@dataclass(frozen=True, slots=True)
class Hold:
    job: Job
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    job: Job
    why: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Retries are exhausted or a person must answer a question; `chainwatch retry` goes on."""

    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A retry cannot help. Tells a person exactly what to do."""

    why: str
    advice: str
    told: bool = False
    """One alert about several chains tells people of it; none of its own is owed."""


Decision: TypeAlias = LeaveAlone | Wait | Resubmit | EndJob | Hold | Release | Rest | Stop


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a chain, as the store remembers it."""

    job: Job
    number: int
    """1 for the chain's first attempt, counted over requeues too."""
    ours: bool
    """Submitted by chainwatch (its token is in the job's comment)."""
    verdict: Verdict | None = None
    """None until it was judged."""
    ended: datetime | None = None
    step_before: int | None = None
    """Newest step reached, when the attempt began."""
    step_after: int | None = None
    saved_before: int | None = None
    """Newest intact step, when the attempt began."""
    saved_after: int | None = None
    resumed_from: str | None = None
    script_digest: str = ""
    commit: str = ""
    """Git commit of the working directory, `+` appended where it was dirty."""
    drained: tuple[str, ...] = ()
    """Nodes that Slurm drained behind it because its processes did not die (`Kill task failed`)."""
    image: str = ""
    """Container image, as the script (or, where it does not say, the job) names it; empty where there is none."""
    variables: tuple[str, ...] = ()
    """Names of the variables of the environment that the job was submitted with; empty where not known."""

    @property
    def saved_progress(self) -> bool:
        """The attempt left a newer intact checkpoint than it found."""
        return self.saved_after is not None and (self.saved_before is None or self.saved_after > self.saved_before)


def living(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that is not over. Of several the one that holds nodes, else the first: somebody may have queued others."""
    live = [attempt for attempt in attempts if attempt.ended is None]
    return next((a for a in reversed(live) if a.job.state.on_nodes), live[0] if live else None)


@dataclass(frozen=True, slots=True)
class ExcludedNode:
    """A node that a chain (or, with `chain` None, every chain) keeps away from."""

    node: str
    why: str
    since: datetime
    until: datetime
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All that the decision needs to know of the past. Pure input of `decide`."""

    chain: str
    attempts: tuple[Attempt, ...] = ()
    """Oldest first; the last one is the one that ended."""
    retried_at: datetime | None = None
    """A person said `retry`: budgets count from here."""
    submissions_last_hour: int = 0
    """Of the whole daemon."""
    excluded: tuple[ExcludedNode, ...] = ()
    gpu_hours: float = 0.0
    cohort_stopped: str = ""
    """The cohort that this chain's last end is one of, in a sentence with its root line; empty if none."""
    incident: str = ""
    """The incident that this chain's last end belongs to and that is not over; empty if none."""
    incident_over: datetime | None = None
    """Since when that incident is over; None where there was none. Its chains return spread out."""
    incident_chains: int = 0
    """How many chains return from it."""
    extras: tuple[tuple[str, str], ...] = field(default=())
