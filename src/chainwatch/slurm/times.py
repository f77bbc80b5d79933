"""Slurm's times and durations, and all the words that it prints in their place.

chainwatch asks for epochs (`SLURM_TIME_FORMAT=%s`), so that no time zone and no ambiguous hour of autumn can shift
them. `Unknown`, `None`, `N/A`, `NONE` and an empty column all mean: there is no such time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_NO_TIME_ABOVE = 4_294_967_290
"""INFINITE and NO_VAL of 32 bits; nothing in Slurm ends in the year 2106."""

_DURATION = re.compile(
    r"^(?:(?P<days>\d+)-)?(?:(?P<a>\d+):)?(?:(?P<b>\d+):)?(?P<c>\d+)(?:\.(?P<fraction>\d+))?$",
)


def parse_time(text: str) -> datetime | None:
    """An epoch (`SLURM_TIME_FORMAT=%s`) or an ISO time in UTC as aware datetime; None for every word and for 0."""
    text = text.strip()
    if text.isdigit():
        seconds = int(text)
        return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < _NO_TIME_ABOVE else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_duration(text: str) -> timedelta | None:
    """A duration that Slurm *printed*: `5:00` is five minutes, `2-17:56:34`, `00:00.042`, `8371-10:29:20`.

    None for `UNLIMITED`, `NOT_SET`, `INVALID`, `Partition_Limit`, `N/A`, `INFINITE` and anything else without a number.
    """
    found = _DURATION.match(text.strip())
    if not found:
        return None
    days, fraction = int(found["days"] or 0), found["fraction"]
    parts = [int(part) for part in (found["a"], found["b"], found["c"]) if part is not None]
    if found["days"] is not None and len(parts) < 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]  # after days Slurm counts from the hours: `3-0:00`
    else:
        hours, minutes, seconds = (0, 0, *parts)[-3:]
    micro = int(f"{fraction:0<6}"[:6]) if fraction else 0
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micro)


def parse_minutes(text: str) -> timedelta | None:
    """sacct's TimelimitRaw (minutes); None for `UNLIMITED`, `Partition_Limit` and an empty column."""
    text = text.strip()
    return timedelta(minutes=int(text)) if text.isdigit() and int(text) < _NO_TIME_ABOVE else None


def parse_time_limit(text: str) -> timedelta | None:
    """A time limit as people *write* it for sbatch: `30` and `30:00` are minutes, `12:00:00`, `2-12`, `2-12:00:00`.

    None for `UNLIMITED`, `INFINITE` and what is no time limit.
    """
    text = text.strip()
    if text.isdigit():
        return timedelta(minutes=int(text))
    return parse_duration(text)
