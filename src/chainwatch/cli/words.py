"""Words of a command line that are more than text: parsers that say in our words what is expected."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import typer

_DIGITS = 1000
"""Python refuses to read numbers that are much longer."""
Kind = TypeVar("Kind", bound=StrEnum)


def whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    """A whole number from `low` on, up to `high` where there is one."""

    def parse(word: Any) -> int:
        text = str(word)
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else None
        if number is None or number < low or (high is not None and number > high):
            limits = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise typer.BadParameter(f"a whole number {limits} is expected, not {_short(text)}")
        return number

    return parse


def one_of(kind: type[Kind]) -> Callable[[Any], Kind]:
    """One of the words of an enumeration."""

    def parse(word: Any) -> Kind:
        try:
            return kind(word)
        except ValueError:
            *most, last = [f"`{each}`" for each in kind]
            near = difflib.get_close_matches(str(word).lower(), list(kind), n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            expected = f"{', '.join(most)} or {last} is expected"
            raise typer.BadParameter(f"{expected}, not {_short(str(word))}{hint}") from None

    return parse


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
