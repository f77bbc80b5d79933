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


def rate(chain: ChainRecord) -> float | None:
    """Training steps per second, as the loop last measured (the fact `rate`)."""
    value = chain.facts.get("rate")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def eta_seconds(chain: ChainRecord) -> float | None:
    """Seconds of training left at the present rate; None where step, target or rate is unknown."""
    speed = rate(chain)
    if speed is None or chain.target is None or chain.step is None:
        return None
    return max(0, chain.target - chain.step) / speed


def at_risk_seconds(chain: ChainRecord) -> float | None:
    """Seconds of training that would be lost if the job ended now; None where step or rate is unknown."""
    speed = rate(chain)
    if speed is None or chain.step is None:
        return None
    return max(0, chain.step - (chain.saved_step or 0)) / speed
