"""What a channel is: it says one message or several at once, and reports honestly what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from chainwatch.alerts.message import Message


@dataclass(frozen=True, slots=True)
class Told:
    """The other side took it."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """It did not get through, and the channel is to blame: everything for it waits."""

    why: str
    """For people, without the address."""
    after: timedelta | None = None
    """How long the other side asked us to wait."""


@dataclass(frozen=True, slots=True)
class Unwelcome:
    """The other side refused this message; another one may pass."""

    why: str


Answer: TypeAlias = Told | TryLater | Unwelcome


class Channel(Protocol):
    """A way to reach people. Blocks for at most its deadline; never raises for what the other side does."""

    name: str

    def tell(self, messages: Sequence[Message], summary: str, now: datetime) -> Answer:
        """Say it: one message, or several as a digest under the line `summary`."""
        ...
