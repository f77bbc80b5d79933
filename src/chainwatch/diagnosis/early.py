"""Early warnings: what a running attempt is about to suffer, judged before it happens. Pure.

Each judgement is made of what was measured of the chain's own past: how often and how large it saves, how fast it steps.
A warning that stands is taken back only when there is some distance again, so that nothing is told back and forth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import Any

from chainwatch.config.models import Warnings
from chainwatch.model.room import Room

_FEWEST_GAPS = 2
"""Between saves: with fewer nothing is known of how often a chain saves."""
_SHORTEST = timedelta(minutes=10)
"""Saves are not missed sooner than this, however often they come."""
_LEARN = 10
"""Polls in which a rate is learned before one is called low."""
_LOW = 3
"""Polls in a row in which it must be low."""
_WEIGHT = 0.05
_DISTANCE = 1.25
"""By how much a threshold must be passed again before a warning is taken back."""


class Early(StrEnum):
    """What is ahead."""

    LIMIT = "limit"
    """The time limit comes before the next checkpoint."""
    ROOM = "room"
    """Disk, quota or inodes hold no two checkpoints more."""
    SLOW = "slow"
    """The step rate has fallen."""
    UNSAVED = "unsaved"
    """Checkpoints stopped coming."""


@dataclass(frozen=True, slots=True)
class Warned:
    """One thing to tell."""

    early: Early
    why: str
    wants: str


@dataclass(frozen=True, slots=True)
class Speed:
    """What is remembered of the step rate from poll to poll, over all attempts."""

    usual: float | None = None
    """Steps per second."""
    seen: int = 0
    low: int = 0
    """For how many polls in a row the rate has been low."""

    @classmethod
    def of(cls, stored: object) -> Speed:
        """From the record's facts; anything that is none begins anew."""
        if not isinstance(stored, Mapping):
            return cls()
        usual, seen, low = (stored.get(name) for name in ("usual", "seen", "low"))
        good = isinstance(usual, int | float) and isinstance(seen, int) and isinstance(low, int)
        return cls(float(usual), seen, low) if good else cls()  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        return {"usual": self.usual, "seen": self.seen, "low": self.low}

    def after(self, rate: float | None, training: bool, slower_by: float) -> Speed:
        """With one more poll. A low rate is not learned from, or a run that stays slow would become the usual."""
        if rate is None or rate <= 0 or not training:
            return self
        if self.usual is None:
            return Speed(rate, 1)
        if self.seen >= _LEARN and rate < self.usual * (1 - slower_by):
            return replace(self, low=self.low + 1)
        near = self.seen < _LEARN or rate > self.usual * (1 - slower_by) * _DISTANCE
        usual = self.usual + (rate - self.usual) * max(_WEIGHT, 1 / (self.seen + 1))
        return Speed(usual, self.seen + 1, 0 if near else self.low)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What one poll knows of a running attempt."""

    now: datetime
    started: datetime
    limit: timedelta | None = None
    """Its time limit; None where it has none, or nobody knows it."""
    suspended: timedelta = timedelta(0)
    saves: Sequence[datetime] = ()
    """When the chain's checkpoints were written, oldest first, over all attempts."""
    saves_at_limit: bool = False
    """An earlier attempt that met its time limit saved just before: the program sees it coming."""
    room: Room | None = None
    rate: float | None = None
    speed: Speed = Speed()
    moving: bool = True
    """It lives: a run that hangs saves nothing, and is told as that."""


def warnings(ahead: Ahead, policy: Warnings, standing: Collection[Early] = ()) -> tuple[Warned, ...]:
    """Everything that is worth a warning now. `standing`: what was warned of in the last poll."""
    if not policy.enabled:
        return ()
    found = (
        _limit(ahead, policy),
        _room(ahead, policy, Early.ROOM in standing),
        _slow(ahead, policy),
        _unsaved(ahead, policy),
    )
    return tuple(one for one in found if one is not None)


def usual_gap(ahead: Ahead) -> timedelta | None:
    """The usual time between two saves; None where too few are known. A gap with a job's start in it may hold a queue."""
    begun = ahead.started
    pairs = zip(ahead.saves, ahead.saves[1:], strict=False)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairs if not earlier < begun <= later]
    return timedelta(seconds=median(gaps)) if len(gaps) >= _FEWEST_GAPS else None


def _last(ahead: Ahead) -> datetime:
    """Since when work is at risk."""
    return max((s for s in ahead.saves if s >= ahead.started), default=ahead.started)


def _limit(ahead: Ahead, policy: Warnings) -> Warned | None:
    gap = usual_gap(ahead)
    if ahead.limit is None or gap is None or ahead.saves_at_limit or not policy.lost_at_limit:
        return None
    end = ahead.started + ahead.limit + ahead.suspended
    last = _last(ahead)
    if end <= ahead.now or last + gap <= end or end - last < policy.lost_at_limit:
        return None
    return Warned(
        Early.LIMIT,
        f"the time limit comes in {_span(end - ahead.now)}, the next checkpoint usually {_span(gap)} after the last one: "
        f"{_span(end - last)} of work will be lost",
        "save more often, let the job save at a signal (#SBATCH --signal), or ask for a longer limit",
    )


def _room(ahead: Ahead, policy: Warnings, stands: bool) -> Warned | None:
    room = ahead.room
    if room is None or not policy.free_checkpoints:
        return None
    wanted = policy.free_checkpoints * (_DISTANCE if stands else 1.0)
    for free, one, what in (
        (room.free_bytes, room.save_bytes, "bytes"),
        (room.free_files, room.save_files, "files"),
    ):
        if free is not None and one and free < wanted * one:
            left = _bytes(free) if what == "bytes" else f"{free} files"
            takes = _bytes(one) if what == "bytes" else f"{one} files"
            return Warned(
                Early.ROOM,
                f"{room.bounded_by} leaves {left} where it saves, and a checkpoint takes {takes}",
                "make room before the next save: one that is cut short cannot be resumed from",
            )
    return None


def _slow(ahead: Ahead, policy: Warnings) -> Warned | None:
    speed = ahead.speed
    if not policy.slower_by or speed.usual is None or speed.low < _LOW or not ahead.rate:
        return None
    return Warned(
        Early.SLOW,
        f"it makes {_rate(ahead.rate)}, {1 - ahead.rate / speed.usual:.0%} less than its usual {_rate(speed.usual)}",
        "look for a node that is throttled, shared or sick, and at the storage of its data",
    )


def _unsaved(ahead: Ahead, policy: Warnings) -> Warned | None:
    gap = usual_gap(ahead)
    if gap is None or not policy.unsaved_after or not ahead.moving:
        return None
    since = ahead.now - _last(ahead) - ahead.suspended
    if since <= max(gap * policy.unsaved_after, _SHORTEST):
        return None
    return Warned(
        Early.UNSAVED,
        f"no checkpoint has come for {_span(since)}, usually one comes every {_span(gap)}",
        "look whether saving fails: all work since then would be lost",
    )


def _span(span: timedelta) -> str:
    minutes = max(1, round(span.total_seconds() / 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _rate(rate: float) -> str:
    return f"{rate:.3g} steps/s" if rate >= 1 else f"a step in {1 / rate:.3g} s"


def _bytes(count: int) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
