"""Values that people write in a configuration: durations, moments, paths, patterns, words of a command line."""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

from chainwatch.model.durations import parse_duration, show_duration
from chainwatch.model.pattern import wrong_with

_LONGEST_PATH, _LONGEST_NAME = 4095, 255


STORED = {"stored": True}
"""Validation context for what was a configuration once, and was read and expanded then."""


def expand_path(value: Any) -> Any:
    """`~` and `$VARIABLES` expanded, `$$` a dollar; an unset variable is an error rather than a path with a dollar."""
    if not isinstance(value, (str, os.PathLike)):
        return value
    text = re.sub(r"\$(?:(\$)|\{(\w+)\}|(\w+))", _variable, os.fspath(value))
    if text.startswith("~"):
        home = os.path.expanduser(text)
        if home == text:
            raise ValueError(
                f"no user {text.split('/')[0][1:]!r} is known here" if text[1:2] != "/" else "HOME is not set"
            )
        text = home
    if not text.strip():
        raise ValueError("a path is expected, not nothing")
    if "://" in text:
        raise ValueError("a path is expected, not an address (mount an object store, or name its local copy)")
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL byte")
    raw = os.fsencode(text)
    if len(raw) > _LONGEST_PATH or max(map(len, raw.split(b"/"))) > _LONGEST_NAME:
        raise ValueError(f"no file can be called so: a path has at most {_LONGEST_PATH} bytes, a name {_LONGEST_NAME}")
    return text


def literal_path(path: str | os.PathLike[str]) -> str:
    """The path as a configuration would have to write it: nothing in it is expanded."""
    return os.fspath(path).replace("$", "$$")


def _expanded_once(value: Any, info: ValidationInfo) -> Any:
    return value if info.context == STORED else expand_path(value)


def _variable(match: re.Match[str]) -> str:
    if match[1]:
        return "$"
    name = match[2] or match[3]
    try:
        return os.environ[name]
    except KeyError:
        raise ValueError(f"the environment variable {name} is not set") from None


def _moment(value: datetime) -> datetime:
    """Local time where no zone is written."""
    return value if value.tzinfo else value.astimezone()


def _split(value: Any) -> Any:
    """One line, split as a shell would (nothing is expanded)."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as e:
        raise ValueError(f"the quotes in it do not match ({e})") from None


def _options(value: tuple[str, ...]) -> tuple[str, ...]:
    for option in value:
        if re.match(r"--[\w-]+\s", option):
            name, _, rest = option.partition(" ")
            raise ValueError(f"each option is one word: {name}={rest.strip()} instead of {option!r}")
    return value


def _pattern(value: str) -> str:
    if wrong := wrong_with(value):
        raise ValueError(wrong)
    return value


def _step_pattern(value: str) -> str:
    if "(?P<step>" not in _pattern(value):
        raise ValueError(r"the pattern needs a group that is called step: (?P<step>\d+)")
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^\s*((\d+(\.\d+)?)\s*(ms|s|m|h|d|w)\s*)+$", "examples": ["30s", "1h30m"]}
    ),
]
Moment = Annotated[
    datetime,
    AfterValidator(_moment),
    WithJsonSchema({"type": "string", "examples": ["2026-09-01", "2026-09-01T18:00+02:00"]}),
]
ExpandedPath = Annotated[Path, BeforeValidator(_expanded_once)]
ExpandedText = Annotated[str, BeforeValidator(_expanded_once)]
"""A path pattern (glob, or with Slurm's `%j`), expanded but not made a Path: a trailing slash or `**` stays."""
Pattern = Annotated[str, AfterValidator(_pattern)]
StepPattern = Annotated[str, AfterValidator(_step_pattern)]
_WORDS = {
    "anyOf": [{"type": "array", "items": {"type": ["string", "number", "boolean"]}}, {"type": "string"}],
}
Words = Annotated[tuple[str, ...], BeforeValidator(_split), WithJsonSchema(_WORDS)]
Options = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_options), WithJsonSchema(_WORDS)]
