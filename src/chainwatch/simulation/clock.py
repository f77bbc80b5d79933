"""Virtual time: a clock whose seconds pass only when somebody sleeps, and the events that happen meanwhile.

A day of a simulated cluster takes milliseconds, because nothing ticks: time jumps from one event to the next.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime

from chainwatch.model.clock import at_epoch

Event = Callable[[], None]

DAWN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
"""When simulated histories begin unless they say otherwise."""


class Timer:
    """One event that is due. Cancelling it is allowed at any time, also after it happened."""

    __slots__ = ("_event",)

    def __init__(self, event: Event) -> None:
        self._event: Event | None = event

    def cancel(self) -> None:
        """The event does not happen (any more)."""
        self._event = None

    @property
    def due(self) -> bool:
        """It has neither happened nor been cancelled."""
        return self._event is not None

    def fire(self) -> None:
        """Let the event happen, once."""
        event, self._event = self._event, None
        if event is not None:
            event()


class VirtualClock:
    """The `Clock` of simulations. Also the queue of all that will happen.

    Events run in order of time, and in the order in which they were planned where times are equal. An event may plan
    others, but must not sleep: only the one who owns the loop (the supervisor under test) lets time pass.
    """

    def __init__(self, start: datetime = DAWN) -> None:
        self._start = start.timestamp()
        self._elapsed = 0.0
        self._shift = 0.0
        self._queue: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._running = False
        self._woken = False

    @property
    def time(self) -> float:
        """Epoch seconds of the cluster: what `now` would say if the wall clock had never been set."""
        return self._start + self._elapsed

    def now(self) -> datetime:
        return at_epoch(self.time + self._shift)

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> bool:
        """Let `seconds` pass, and everything happen that is due in them; returns early, and True, when an event calls
        `wake`."""
        return self._pass(seconds, wakeable=True)

    def advance(self, seconds: float) -> None:
        """Let exactly `seconds` pass (the time that a call takes); nothing wakes it."""
        self._pass(seconds, wakeable=False)

    def wake(self) -> None:
        """End the present or the next `sleep`, as a signal or a person's command does."""
        self._woken = True

    def set_wall(self, shift: float) -> None:
        """The wall clock is off by `shift` seconds from now on (NTP, a resumed laptop). `monotonic` is untouched."""
        self._shift = shift

    def at(self, when: float, event: Event) -> Timer:
        """Plan an event for an epoch second; one that has passed already means: next."""
        timer = Timer(event)
        heapq.heappush(self._queue, (max(when, self.time), next(self._count), timer))
        return timer

    def after(self, seconds: float, event: Event) -> Timer:
        """Plan an event for `seconds` from now."""
        return self.at(self.time + seconds, event)

    def _pass(self, seconds: float, *, wakeable: bool) -> bool:
        if self._running:
            raise RuntimeError("an event of the simulation tried to sleep: events happen at one moment")
        until = self._elapsed + max(0.0, seconds)
        self._running = True
        try:
            while self._queue and self._queue[0][0] - self._start <= until and not (wakeable and self._woken):
                when, _, timer = heapq.heappop(self._queue)
                self._elapsed = max(self._elapsed, when - self._start)
                timer.fire()
            if wakeable and self._woken:
                self._woken = False
                return True
            self._elapsed = until
            return False
        finally:
            self._running = False
