"""All that the page and the metrics show, read in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from chainwatch.model.chain import ExcludedNode
from chainwatch.model.pulse import Pulse
from chainwatch.store.records import ChainRecord, Notice


class Reads(Protocol):
    """What the page needs of the store. Methods of the same names there."""

    def chains(self) -> list[ChainRecord]: ...
    def counters(self) -> list[tuple[str, dict[str, str], float]]: ...
    def undelivered(self) -> list[Notice]: ...
    def excluded(self, now: datetime) -> Sequence[ExcludedNode]: ...


@dataclass(frozen=True, slots=True)
class View:
    """What is known at one moment."""

    now: datetime
    chains: tuple[ChainRecord, ...] = ()
    counters: tuple[tuple[str, dict[str, str], float], ...] = ()
    owed: tuple[Notice, ...] = ()
    """Alerts that nobody got yet."""
    excluded: tuple[ExcludedNode, ...] = ()
    pulse: Pulse | None = None
    """None: no loop runs in this process (metrics read from the store alone)."""


def look(store: Reads, now: datetime, pulse: Pulse | None) -> View:
    """Read the store. Raises what the store raises."""
    return View(
        now=now,
        chains=tuple(store.chains()),
        counters=tuple(store.counters()),
        owed=tuple(store.undelivered()),
        excluded=tuple(store.excluded(now)),
        pulse=pulse,
    )
