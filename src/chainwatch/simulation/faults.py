"""What goes wrong between a client and the cluster: planned faults, the record of all calls, and points of death."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum


class FaultKind(StrEnum):
    """How one call fails."""

    BEFORE = "before"
    """No answer, and nothing was done."""
    AFTER = "after"
    """No answer, although it was done: the client's time-out came first."""
    LATE = "late"
    """No answer, and it is done some time after the client gave up: it waited in a busy controller's socket."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One failing call."""

    method: str
    """Name of the `Backend` method; `*` for any."""
    nth: int
    """Which call of that method fails, counted from 1 (of any method for `*`)."""
    kind: FaultKind = FaultKind.BEFORE
    seconds: float = 10.0
    """How long the client waits for the answer that never comes."""
    late: float = 45.0
    """For `FaultKind.LATE`: seconds from the client's time-out until it is done."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a client made, and what became of it."""

    at: datetime
    method: str
    arguments: tuple[object, ...]
    outcome: str
    """`ok`, or the name of the exception that the client saw."""
    effect: bool = True
    """It was carried out by the cluster, whatever the client saw."""
    result: object = None
    """The id of a submitted job; None for all else."""


Interrupt = Callable[[str], None]
"""Called with `submit:before`, `submit:after`, … around every call; may raise to kill the caller there."""


@dataclass(slots=True)
class FaultPlan:
    """Which calls fail."""

    faults: tuple[Fault, ...] = ()
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.faults = tuple(self.faults)

    def next(self, method: str) -> Fault | None:
        """Count one call of `method`; the fault that hits it, if any does."""
        hits = [f for name in (method, "*") if (f := self._count(name)) is not None]
        return hits[0] if hits else None

    def add(self, faults: Iterable[Fault]) -> None:
        """More faults; `nth` counts from now on."""
        self.faults += tuple(replace(f, nth=f.nth + self._counts.get(f.method, 0)) for f in faults)

    def _count(self, name: str) -> Fault | None:
        self._counts[name] = self._counts.get(name, 0) + 1
        return next((f for f in self.faults if f.method == name and f.nth == self._counts[name]), None)
