"""A history as data: the chains, what happens to the cluster and when, and where the daemon dies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chainwatch.config.models import HandOver
from chainwatch.simulation import Fault, OnTerm, TrainingFault


class Happening(StrEnum):
    """What may happen. `target` picks a chain or a node, `seconds` says how long it lasts, `flag` a variant."""

    PREEMPT = "a more urgent job claims the nodes of the chain's job"
    OCCUPY = "somebody else's urgent job takes nodes for a while"
    NODE_DIES = "a node stops answering (flag: its power went), and returns"
    NODE_DOWN = "an administrator sets a node down, and back"
    DRAIN = "an administrator drains a node, and resumes it"
    SICK_NODE = "programs crash on a node, until it is repaired"
    CONTROLLER_DOWN = "slurmctld stops, and starts again"
    CONTROLLER_FROZEN = "slurmctld hangs, and wakes (flag: is restarted instead)"
    ACCOUNTING_DOWN = "slurmdbd stops, and starts again"
    ACCOUNTING_LATE = "accounting is late by the same seconds for a while"
    MUNGE_DOWN = "nobody can authenticate for a while"
    STORAGE_HANGS = "the chain's storage does not answer for a while"
    REFUSED = "the cluster takes no submissions for a while"
    CANCELLED = "the user cancels the chain's job"
    ADMIN_CANCELLED = "an administrator cancels the chain's job"
    HELD = "somebody holds the chain's pending job (flag: an administrator), and releases it"
    REQUEUED = "somebody requeues the chain's job"
    LAUNCH_FAILS = "the job's launch fails: it is requeued held"
    RESUBMITTED = "the user resubmits the chain's script by hand"
    ROT = "bits of the newest intact checkpoint flip"
    ALERTS_DOWN = "no alert can be delivered for a while"
    PAUSE = "the user pauses the chain, and resumes it"
    RETRY = "the user says retry"
    RESTART = "the daemon is stopped, and started again after a while"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    at: float
    """Seconds after the beginning."""
    what: Happening
    target: int = 0
    seconds: float = 600.0
    flag: bool = False


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """One chain."""

    hand_over: HandOver = HandOver.SET_ASIDE
    qos: str = "extra"
    on_term: OnTerm = OnTerm.DIE
    faults: tuple[TrainingFault, ...] = ()
    teardown_crash: bool = False
    hides_exit: bool = False
    final_step: int = 3000
    no_requeue: bool = False
    time_limit: int | None = None
    """Minutes."""
    unique_name: bool = True
    site_delay: float | None = None
    """With a number: the site resubmits this chain's jobs after so many seconds."""
    site_copies_comment: bool = False
    site_minds_cancelled: bool = True
    """It resubmits cancelled jobs too, so that our own scancel wakes it."""
    standby: bool = False
    """The next job is kept queued. Such a chain picks its checkpoint by command, and nobody else resubmits it."""

    def __post_init__(self) -> None:
        if self.standby:
            object.__setattr__(self, "hand_over", HandOver.COMMAND)
            object.__setattr__(self, "site_delay", None)


@dataclass(frozen=True, slots=True)
class Plan:
    """One history."""

    chains: tuple[ChainPlan, ...] = (ChainPlan(),)
    events: tuple[Event, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Lost requests and lost answers."""
    deaths: tuple[int | str, ...] = ()
    """Where the daemon dies, one after the other: after so many points between effects, or at a named one."""
    downtime: float = 90.0
    """Seconds until a dead daemon is started again."""
    release: str = "22.05.8"
    min_job_age: float = 300.0
    accounting_lag: float = 0.7
    completing: float = 3.0
    first_job_id: int = 1
    max_job_id: int = 67_000_000
    seed: int = 0
    hours: float = 8.0
    """After so long everything is healed and nothing more happens."""
