"""What the loop publishes after each pass, and the counters of its polls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from chainwatch.config.models import Config
from chainwatch.model.job import Source
from chainwatch.model.pulse import Board, PollFacts, Pulse
from chainwatch.store import Store
from chainwatch.store.counters import Counted, count
from chainwatch.supervisor.poll import Poller


class Companion(Protocol):
    """What runs beside the loop (page, metrics file, heartbeat); it is told of each turn and must not block."""

    def turn(self, pulse: Pulse) -> None: ...
    def close(self) -> None: ...


Companions = Callable[[Config, Store, Board, tuple[str, ...] | None], Companion]
"""Starts a companion for a daemon; the last argument: hosts that the site allows. The command `run` hands one in, since
the loop may not know the room `web`."""


class Pulsing:
    """Turns the pollers' books into pulses. Call `take` once after each pass."""

    def __init__(self, pollers: Mapping[str, Poller], started: datetime, interval: timedelta) -> None:
        self._pollers, self._started, self.interval = pollers, started, interval
        self._counted: dict[tuple[str, Source, Counted], float] = {}

    def take(
        self, now: datetime, next_turn: datetime | None = None, *, observing: bool = False, paused_by_site: str = ""
    ) -> Pulse:
        """The pulse of the pass that just ended."""
        polls = tuple(
            PollFacts(
                name,
                source.value,
                poller.last_good.get(source),
                poller.seconds.get(source),
                poller.last_error.get(source, ""),
            )
            for name, poller in self._pollers.items()
            for source in (Source.QUEUE, Source.ACCOUNTING, Source.NODES)
            if source in poller.seconds or source is Source.QUEUE
        )
        return Pulse(now, self._started, self.interval, next_turn, polls, observing, paused_by_site)

    def count(self, store: Store) -> None:
        """Raise the counters of the questions since the last call: one transaction, a handful of rows."""
        with store.transaction():
            for name, poller in self._pollers.items():
                for book, what in (
                    (poller.asked, Counted.POLLS),
                    (poller.errors, Counted.POLL_ERRORS),
                    (poller.spent, Counted.POLL_SECONDS),
                ):
                    for source, value in book.items():
                        before = self._counted.get((name, source, what), 0.0)
                        self._counted[name, source, what] = value
                        count(store, what, value - before, cluster=name, source=source.value)
