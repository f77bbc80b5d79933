"""Time is handed in, never read: the loop, the simulated cluster and the tests each bring their own."""

from __future__ import annotations

import math
import os
import select
import time as _time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The one source of time. Implementations: the system's, and a virtual one in tests and simulation."""

    def now(self) -> datetime:
        """The current time: aware, UTC. May jump (NTP, suspended laptops); never use it to measure a duration."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back. For deadlines."""
        ...

    def sleep(self, seconds: float) -> bool:
        """Return after about `seconds`, earlier when somebody wants the loop to look up (a signal, a command): whether
        somebody does."""
        ...


_PIPE = 1 << 16
"""As many bytes as a pipe holds: one read empties it, and a storm of wakes cannot keep its reader reading."""


class SystemClock:
    """The machine's clock. `wake` ends a sleep, the one under way or the next one. It may be called by a signal handler or
    another thread: it writes a byte to a pipe. (The lock of an Event is not reentrant: a signal that comes while its own
    thread holds that lock would wait for it for ever.)
    """

    def __init__(self) -> None:
        self._wakes, self._wakened = os.pipe()
        for end in (self._wakes, self._wakened):
            os.set_blocking(end, False)
        weakref.finalize(self, _close, self._wakes, self._wakened)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return _time.monotonic()

    def sleep(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        woken = bool(poll.poll(math.ceil(max(0.0, seconds) * 1000)))
        if woken:
            with suppress(BlockingIOError):
                os.read(self._wakes, _PIPE)
        return woken

    def wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full: who sleeps is woken anyway
            os.write(self._wakened, b"\0")


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)


def at_epoch(seconds: float) -> datetime:
    """The aware UTC datetime of an epoch timestamp in seconds."""
    return datetime.fromtimestamp(seconds, UTC)
