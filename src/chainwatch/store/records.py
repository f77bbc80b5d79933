"""Rows of the store, as the rest of the house sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.model.checkpoint import Status

RELEASED = "released"
"""Fact of a chain that was taken out of the configuration."""


CONFIGURED = "configured"
"""Fact: a daemon has had the chain in its configuration, at this path. One that a command registered from a file is looked
after also before the daemon has read that file."""
CONFIGURATION = "configuration"
"""What the store remembers the path of the daemon's configuration under."""

LAST_PASS = "last pass of run --once"
"""What the store remembers it under: a timer's passes hold no lease between them."""


class Origin(StrEnum):
    """How a chain came to be known."""

    CONFIG = "config"
    SBATCH = "sbatch"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """One chain as remembered: what is asked of it, and where it stands."""

    name: str
    cluster: str
    origin: Origin
    mode: Mode
    settings: Mapping[str, Any]
    """The chain's configuration (`config.models.Chain`, dumped in mode json)."""
    created: datetime
    desired: Desired = Desired.RUN
    desired_at: datetime | None = None
    desired_until: datetime | None = None
    """End of a pause that was asked for a time."""
    desired_why: str = ""
    state: ChainState = ChainState.NEW
    state_since: datetime | None = None
    sentence: str = ""
    """The last human sentence about it: what was decided, and why."""
    wait_until: datetime | None = None
    step: int | None = None
    saved_step: int | None = None
    target: int | None = None
    retried_at: datetime | None = None
    """A person said `retry` (or `submit`): budgets count from here, and rest or stop is lifted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment that was captured when the chain was first submitted."""
    script_digest: str = ""
    """Digest of the batch script at the last submission (`sha256:…`)."""
    pinned_script: str = ""
    """Path of the kept copy, for `script: pinned`."""
    grace_until: datetime | None = None
    """Until then chainwatch waits for another resubmitter's job."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Small facts that the loop keeps between ticks (preempted_at by attempt, first absent, …); JSON."""

    @property
    def configuration(self) -> str | None:
        """Path of the configuration that named it last; None where none did, or nobody noted it."""
        path = self.facts.get(CONFIGURED)
        return path if isinstance(path, str) else None

    @property
    def job_ahead(self) -> str | None:
        """The job that was submitted or adopted and that no poll has shown yet, as people call it."""
        expected, array = self.facts.get("expected"), self.facts.get("array")
        if isinstance(expected, Mapping):
            return str(expected["job_id"])
        if self.state is ChainState.NEW and isinstance(array, Mapping) and None not in {array["id"], array["task"]}:
            return f"{array['id']}_{array['task']}"
        return None

    @property
    def template(self) -> str:
        """What it shares with chains that run the same thing: the template's name, or else the batch script's path."""
        return str(self.settings.get("template") or self.settings.get("batch") or self.name)

    @property
    def released(self) -> bool:
        """It was taken out of the configuration: its history is kept, and nothing more is done for it."""
        return RELEASED in self.facts


class IntentKind(StrEnum):
    """An effect outside the store."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    END = "end"
    """A running job that hangs: a signal, then a cancellation."""
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    SET_ASIDE = "set_aside"
    POINTER = "pointer"


class IntentStatus(StrEnum):
    OPEN = "open"
    DONE = "done"
    REFUSED = "refused"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect that is owed: written before it is tried, closed when its outcome is known."""

    id: int
    chain: str
    kind: IntentKind
    token: str
    """Unique; for submissions it stands in the job's comment."""
    created: datetime
    payload: Mapping[str, Any]
    """What exactly: for a submission the whole sbatch call and the resume decision; JSON."""
    status: IntentStatus = IntentStatus.OPEN
    tried_at: datetime | None = None
    """When the effect was last tried (an attempt may have had its effect from then on)."""
    absent_rounds: int = 0
    """Conclusive looks since the last try in which the token was nowhere to be found."""
    job_id: int | None = None
    closed: datetime | None = None
    note: str = ""
    absent_at: datetime | None = None
    """When the last of `absent_rounds` was."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert that is owed to people: the outbox."""

    id: int
    chain: str | None
    key: str
    """Deduplication: the same key is told once until it is `recovered`."""
    severity: str
    """`info`, `warning` or `critical`."""
    title: str
    body: Mapping[str, Any]
    """what, why, proving line, what chainwatch did or wants, command to type; JSON."""
    created: datetime
    delivered: datetime | None = None
    tries: int = 0
    next_try: datetime | None = None
    last_error: str = ""
    recovered: datetime | None = None
    """When what it told of was over."""


@dataclass(frozen=True, slots=True)
class Point:
    """How far a chain was at one moment."""

    at: datetime
    step: int
    loss: float | None = None
    """None where the log tells none, or one that is no number."""


@dataclass(frozen=True, slots=True)
class Save:
    """One checkpoint that was seen on disk. It is remembered after the framework has deleted it."""

    path: str
    at: datetime
    """When its newest file was written."""
    step: int | None
    status: Status


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on this state directory. Checked again in the transaction of each intent."""

    holder: str
    """host:pid of the owner"""
    epoch: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Move:
    """A change to user data that the config allows: journaled before it is made, undone by `chainwatch restore`."""

    id: int
    chain: str | None
    kind: str
    """`set_aside` (a rename), `pointer` (a rewritten pointer file) or `link` (a link that leads elsewhere now)."""
    path: str
    """What was changed."""
    target: str
    """Where it was moved to; for a pointer its new content."""
    before: str
    """For a pointer: its old content; otherwise empty."""
    at: datetime
    state: str
    """`planned`, `made`, `undone`"""
    why: str = ""
