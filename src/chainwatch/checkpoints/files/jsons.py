"""`json.loads` for hostile bytes, without the price of importing `json` (which brings `re`) at the start of a program."""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

SPACE = " \t\n\r"


class Nested(ValueError):
    """The JSON is nested without end."""


class _Context:
    """What the scanner in C asks of `json.JSONDecoder`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_constant = float
    parse_int = int if hasattr(sys, "set_int_max_str_digits") else staticmethod(lambda text: int(text[:4300]))
    """Older Pythons take quadratic time for a number of a million digits."""


def loads(data: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none; `Nested` where it is nested too deeply.
    """
    try:
        from _json import make_scanner
    except ImportError:  # another Python than CPython
        from json.scanner import make_scanner
    text = data.decode("utf-8")
    begin = len(text) - len(text.lstrip(SPACE))
    try:
        scan: Any = make_scanner
        value, end = scan(_Context)(text, begin)
    except StopIteration as stop:
        raise ValueError(f"no value at {stop.value}") from None
    except RecursionError:
        raise Nested("nested without end") from None
    if text[end:].strip(SPACE):
        raise ValueError(f"more after the value, at {end}")
    return value
