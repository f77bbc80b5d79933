"""Does a running attempt still live? Silence is measured against what this chain did before. Pure.

Silence is counted only over time in which somebody looked: the job was RUNNING, the storage answered, and the polls came
as they should. So a suspended job, a daemon that was down, a stalled mount and a clock that jumped add nothing to it.

The threshold of a phase is the larger of a floor, five times the 99th percentile of the silences that ended by
themselves, and twice the longest of them; a ceiling keeps one odd night from making it endless.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainwatch.config.models import Hang

STARTUP, TRAINING = "startup", "training"
LEFT_OUT = 3
"""Signs of life after the first step that teach nothing, and until which it still starts: compilation, caches."""
ENOUGH = 10
"""Silences of a phase that must have been seen before its threshold is a learned one."""
TIMES_USUAL, TIMES_LONGEST = 5.0, 2.0
CEILING = timedelta(hours=6)
_BASE = 1.25
"""Width of the histogram's buckets: a quantile is right to a quarter."""
_REMEMBERED = 2000
_LATE = 5
"""A look that comes more than this many polls after the last one says nothing of the time between."""
_TOGETHER = timedelta(minutes=10)
_SAME_MOMENT = timedelta(minutes=4)


@dataclass(frozen=True, slots=True)
class Pace:
    """The silences of one chain that ended by themselves, by phase: a histogram with buckets that grow."""

    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    longest: Mapping[str, float] = field(default_factory=dict)
    """Seconds."""

    def count(self, phase: str) -> int:
        return sum(self.counts.get(phase, {}).values())

    def usual(self, phase: str, share: float = 0.99) -> float:
        """The silence, in seconds, that this share of all did not exceed; the longest one is left out in any case."""
        buckets = self.counts.get(phase, {})
        count = sum(buckets.values())
        wanted = min(share * count, count - 1)
        below = 0
        for bucket in sorted(buckets):
            below += buckets[bucket]
            if below >= wanted:
                return float(min(_BASE ** (bucket + 1), self.longest.get(phase, math.inf)))
        return 0.0

    def learned(self, phase: str, seconds: float) -> Pace:
        """With one more silence. Old ones fade."""
        buckets = dict(self.counts.get(phase, {}))
        if sum(buckets.values()) >= _REMEMBERED:
            buckets = {b: n // 2 for b, n in buckets.items() if n > 1}
        bucket = int(math.log(max(1.0, seconds), _BASE))
        buckets[bucket] = buckets.get(bucket, 0) + 1
        longest = {**self.longest, phase: max(seconds, self.longest.get(phase, 0.0))}
        return Pace({**self.counts, phase: buckets}, longest)

    def limit(self, phase: str, hang: Hang) -> timedelta:
        """The silence that is a hang in this phase."""
        longest = self.longest.get(phase, 0.0)
        if phase == STARTUP:
            return max(hang.startup, timedelta(seconds=TIMES_LONGEST * longest))
        if phase == TRAINING and hang.alert_after is not None:
            return hang.alert_after
        if self.count(phase) < (ENOUGH if phase == TRAINING else LEFT_OUT):
            return max(hang.startup, hang.floor, timedelta(seconds=TIMES_LONGEST * longest))
        seconds = max(TIMES_USUAL * self.usual(phase), TIMES_LONGEST * longest)
        floor = hang.floor if phase == TRAINING else 2 * hang.floor
        return max(floor, min(timedelta(seconds=seconds), CEILING), timedelta(seconds=_BASE * longest))

    def as_dict(self) -> dict[str, Any]:
        """JSON."""
        counts = {phase: {str(b): n for b, n in buckets.items()} for phase, buckets in self.counts.items()}
        return {"counts": counts, "longest": {phase: round(s) for phase, s in self.longest.items()}}

    @classmethod
    def of(cls, value: object) -> Pace:
        """Back from `as_dict`; an empty one for anything else."""
        if not isinstance(value, Mapping):
            return cls()
        try:
            counts = {str(p): {int(b): int(n) for b, n in buckets.items()} for p, buckets in value["counts"].items()}
            return cls(counts, {str(p): float(s) for p, s in value["longest"].items()})
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()


@dataclass(frozen=True, slots=True)
class Look:
    """One poll of one attempt."""

    attempt: str
    at: datetime
    running: bool
    """RUNNING, and nothing else: not suspended, not completing, not being preempted."""
    life: str = ""
    """Changes with every sign of life."""
    answered: bool = True
    """The storage answered, so that unchanged means unchanged."""
    step: int | None = None
    phase: str = ""
    tells_steps: bool = False
    """This chain's steps could be read before, so that none yet means that none was done yet."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one attempt's life from one poll to the next."""

    attempt: str
    at: datetime
    """The last look."""
    counted: bool = False
    """That look could have seen life."""
    life: str = ""
    alive_at: datetime | None = None
    """The look at which it last gave a sign of life."""
    silent: float = 0.0
    """Seconds without life, as far as somebody looked."""
    starting: float = 0.0
    """Seconds without a first step, as far as somebody looked."""
    step: int | None = None
    first: int | None = None
    """Step at the first look that told one."""
    lives: int = 0
    """Signs of life since the first new step."""
    phase: str = STARTUP
    tells_steps: bool = False

    @property
    def started(self) -> bool:
        """A step of this attempt was seen."""
        return self.step is not None

    def as_dict(self) -> dict[str, Any]:
        """JSON."""
        moments = {"at": self.at.isoformat(), "alive_at": self.alive_at.isoformat() if self.alive_at else None}
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | moments

    @classmethod
    def of(cls, value: object) -> Watch | None:
        """Back from `as_dict`; None for anything else."""
        if not isinstance(value, Mapping):
            return None
        try:
            alive = value.get("alive_at")
            plain = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
            plain["at"] = datetime.fromisoformat(value["at"])
            plain["alive_at"] = datetime.fromisoformat(alive) if alive else None
            return cls(**plain)
        except (KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Silence:
    """A hang, as far as silence can tell."""

    phase: str
    silent: timedelta
    limit: timedelta
    since: datetime | None
    sentence: str


def observe(watch: Watch | None, pace: Pace, look: Look, poll: timedelta) -> tuple[Watch, Pace]:
    """The watch after one more look, and what it taught. `poll`: time between two looks, as it should be."""
    counts = look.running and look.answered
    if watch is None or watch.attempt != look.attempt:
        phase = _phase(look, look.step is not None)
        first = Watch(
            look.attempt, look.at, counts, look.life, look.at, step=look.step, first=look.step, phase=phase,
            tells_steps=look.tells_steps,
        )  # fmt: skip
        return first, pace
    if not counts:
        return replace(watch, at=look.at, counted=False, silent=0.0), pace
    passed = look.at - watch.at
    span = passed if timedelta(0) <= passed <= _LATE * poll else min(poll, max(passed, timedelta(0)))
    seconds = span.total_seconds() if watch.counted else 0.0
    told = look.step is not None
    starting = watch.starting if watch.started else watch.starting + seconds
    if told and not watch.started:
        pace = pace.learned(STARTUP, starting)
    changed = replace(
        watch,
        at=look.at,
        counted=True,
        starting=starting,
        step=look.step if told else watch.step,
        first=watch.first if watch.started or not told else look.step,
    )
    if look.life == watch.life:
        return replace(changed, silent=watch.silent + seconds), pace
    lives = watch.lives + 1 if changed.started and changed.step != changed.first else 0
    if watch.started and watch.lives >= LEFT_OUT and watch.counted:
        pace = pace.learned(watch.phase, watch.silent + seconds)
    phase = _phase(look, changed.started)
    return replace(changed, life=look.life, alive_at=look.at, silent=0.0, lives=lives, phase=phase), pace


def judge(watch: Watch, pace: Pace, hang: Hang) -> Silence | None:
    """A hang, or None. Before the first step the whole start counts, where this chain's steps can be read at all: a
    download that never ends writes its bar all the while."""
    silent = watch.starting if not watch.started and watch.tells_steps else watch.silent
    phase = watch.phase if watch.started and watch.lives >= LEFT_OUT else STARTUP
    limit = pace.limit(phase, hang)
    span = timedelta(seconds=silent)
    if span < limit or not watch.counted:
        return None
    if not watch.started and watch.tells_steps:
        sentence = f"no training step for {_minutes(span)} since it started; {_minutes(limit)} are allowed"
    else:
        at = f" at step {watch.step}" if watch.step is not None else ""
        during = "" if phase == TRAINING else f" during {phase}"
        usual = pace.usual(phase)
        known = f"; 99 % of its silences were shorter than {_minutes(timedelta(seconds=usual))}" if usual else ""
        sentence = f"no log, heartbeat or checkpoint grew for {_minutes(span)}{during}{at}{known}"
    return Silence(phase, span, limit, watch.alive_at, sentence)


def fell_silent_together(chain: str, watches: Mapping[str, Watch]) -> tuple[str, ...]:
    """The chains that fell silent at the same moment as this one: the storage, or the network, rather than a hang.

    Empty unless three did, or two that are all there are.
    """
    own = watches.get(chain)
    if own is None or own.alive_at is None:
        return ()
    same = tuple(
        sorted(
            name
            for name, watch in watches.items()
            if watch.alive_at is not None
            and watch.silent >= _TOGETHER.total_seconds()
            and abs(watch.alive_at - own.alive_at) <= _SAME_MOMENT
        )
    )
    return same if len(same) >= 3 or (len(same) == 2 == len(watches)) else ()


def _phase(look: Look, started: bool) -> str:
    if not started:
        return STARTUP
    return look.phase or TRAINING  # a launcher that restarts its workers in the same job starts up again


def _minutes(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
