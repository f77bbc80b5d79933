"""Time is handed in, never read: the loop, the simulated cluster and the tests each bring their own."""

from __future__ import annotations

import time as _time
from datetime import UTC, datetime
from threading import Event
from typing import Protocol


class Clock(Protocol):
    """The one source of time. Implementations: the system's, and a virtual one in tests and simulation."""

    def now(self) -> datetime:
        """The current time: aware, UTC. May jump (NTP, suspended laptops); never use it to measure a duration."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back. For deadlines."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after about `seconds`, earlier when somebody wants the loop to look up (a signal, a command)."""
        ...


class SystemClock:
    """The machine's clock. `wake` interrupts a sleep from a signal handler or another thread."""

    def __init__(self) -> None:
        self._wake = Event()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return _time.monotonic()

    def sleep(self, seconds: float) -> None:
        self._wake.wait(max(0.0, seconds))
        self._wake.clear()

    def wake(self) -> None:
        self._wake.set()


def at_epoch(seconds: float) -> datetime:
    """The aware UTC datetime of an epoch timestamp in seconds."""
    return datetime.fromtimestamp(seconds, UTC)
