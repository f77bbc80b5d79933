"""Durations as people write and read them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
"""Milliseconds, the largest unit first."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_LONGEST = timedelta(days=36_500)


def parse_duration(value: Any) -> timedelta:
    """`30s`, `10m`, `1h30m`, `2d` as a timedelta. A bare number is refused: its unit would be a guess."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        parts = _PART.findall(text)
        if parts and not _PART.sub("", text).strip():
            milliseconds = sum(float(n) * _UNITS[u] for n, u in parts)
            if milliseconds > _LONGEST / timedelta(milliseconds=1):
                raise ValueError(f"{value!r} is longer than a century")
            return timedelta(milliseconds=round(milliseconds))
        if text == "0":
            return timedelta(0)
    if value == 0 and not isinstance(value, bool):
        return timedelta(0)
    raise ValueError(f"a duration like 30s, 10m, 1h30m or 2d is expected, not {value!r}")


def show_duration(value: timedelta) -> str:
    """The shortest way to write a duration so that `parse_duration` reads it back: `1h30m`. Exact to a millisecond."""
    rest, out = round(value / timedelta(milliseconds=1)), ""
    for unit, size in _UNITS.items():
        if unit != "w" and rest >= size:
            out += f"{rest // size}{unit}"
            rest %= size
    return out or "0s"


def age(span: timedelta) -> str:
    """A span in its one or two largest units."""
    seconds = max(0, int(span.total_seconds()))
    for size in (86400, 3600, 60):
        if seconds >= 2 * size:
            seconds -= seconds % (size // (24 if size == 86400 else 60))
            break
    return show_duration(timedelta(seconds=seconds))


def span(seconds: float | None) -> str:
    """How long, for people; empty where it is not known."""
    return "" if seconds is None else age(timedelta(seconds=min(seconds, 10**9)))
