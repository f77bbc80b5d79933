"""One thing that a check found: what it is, why it matters, how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    PROBLEM = "problem"
    """A chain will stall, lose work or be misjudged because of it."""
    ADVICE = "advice"
    """It can be better."""
    OK = "ok"
    """Looked at, and in order."""
    UNKNOWN = "unknown"
    """It could not be looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, for people."""

    code: str
    """A stable word for scripts and for the documentation."""
    level: Level
    what: str
    why: str = ""
    mend: str = ""
    line: int | None = None
    """1-based line of the script that it is about."""
