"""Values that people write in a configuration: durations, paths, counts of steps."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


def parse_duration(value: Any) -> timedelta:
    """`30s`, `10m`, `1h30m`, `2d` as a timedelta. A bare number is refused: its unit would be a guess."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        parts = _PART.findall(text)
        if parts and not _PART.sub("", text).strip():
            return timedelta(seconds=sum(float(n) * _UNITS[u] for n, u in parts))
        if text == "0":
            return timedelta(0)
    if value == 0 and not isinstance(value, bool):
        return timedelta(0)
    raise ValueError(f"a duration like 30s, 10m, 1h30m or 2d is expected, not {value!r}")


def show_duration(value: timedelta) -> str:
    """The shortest way to write a duration so that `parse_duration` reads it back: `1h30m`."""
    seconds = value.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    rest, out = round(seconds), ""
    for unit in ("d", "h", "m", "s"):
        size = int(_UNITS[unit])
        if rest >= size:
            out += f"{rest // size}{unit}"
            rest %= size
    return out


def expand_path(value: Any) -> Any:
    """`~` and `$VARIABLES` expanded; an unset variable is an error rather than a path with a dollar in it."""
    if not isinstance(value, (str, os.PathLike)):
        return value
    text = os.path.expanduser(os.path.expandvars(os.fspath(value)))
    unset = re.search(r"\$\{?(\w+)\}?", text)
    if unset:
        raise ValueError(f"the environment variable {unset.group(1)} is not set")
    if not text.strip():
        raise ValueError("an empty path")
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL byte")
    return text


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^\s*((\d+(\.\d+)?)\s*(ms|s|m|h|d|w)\s*)+$", "examples": ["30s", "1h30m"]}
    ),
]
ExpandedPath = Annotated[Path, BeforeValidator(expand_path)]
ExpandedText = Annotated[str, BeforeValidator(expand_path)]
"""A path pattern (glob, or with Slurm's `%j`), expanded but not made a Path: a trailing slash or `**` stays."""
