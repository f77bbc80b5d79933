"""Tracebacks: where one begins, which is when its exception was raised, and where it ends, which is what it says.

Ranks write into one file line by line, so that between the head of a traceback and the exception there may be all that
the other ranks had to say about the silence of this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from chainwatch.evidence.logs.text import clean

_FRAME = b'  File "'
_NAMED = re.compile(rb"((?:[a-zA-Z_]\w*\.)+(?:[A-Z]\w*|\w*error|exception|timeout)|[A-Z][a-z0-9]+[A-Z]\w*)(?=:? *$|: )")
_HEAD = b"Traceback (most recent call last)"
_MOST = 400
"""Lines of all writers that are looked at above the exception."""


def traceback_start(text: bytes, begin: int, floor: int, key: bytes, nodes: Collection[str] = ()) -> int:
    """The position of the traceback's head for the exception line at `begin`; `begin` where it belongs to none.

    Only lines of the same writer (`key`) count; without a prefix all lines have the same writer.
    """
    end = begin - 1
    for _ in range(_MOST):
        if end <= floor:
            return begin
        start = max(floor, text.rfind(b"\n", floor, end) + 1)
        line = clean(text[start:end].rpartition(b"\r")[2], nodes)
        end = start - 1
        if key and line.key != key:
            continue
        if line.text.startswith(_HEAD):
            return start
        if line.text.strip() and not line.text.startswith((b" ", b"\t")):
            return begin
    return begin


def traceback_end(text: bytes, end: int, key: bytes, nodes: Collection[str] = ()) -> tuple[int, int] | None:
    """The span of the line that ends the traceback whose head ends at `end`: the first of its writer after the frames."""
    frames = False
    for _ in range(_MOST):
        begin = end + 1
        end = text.find(b"\n", begin)
        end = len(text) if end < 0 else end
        if begin >= len(text):
            return None
        line = clean(text[begin:end], nodes)
        if line.key != key:
            continue
        frames |= line.text.startswith(_FRAME)
        if line.text.strip() and not line.text.startswith((b" ", b"\t")):
            return (begin, end) if frames else None
    return None


def is_head(line: bytes) -> bool:
    """`line`, without the prefixes of its writer, begins a traceback."""
    return line.startswith(_HEAD)


def as_exception(line: bytes) -> bytes:
    """The last line of a traceback whose class is not called an error, as if it were; empty where it is no class."""
    named = _NAMED.match(line)
    return b"" if named is None else named[1] + b"Exception" + line[named.end() :]


def is_source_code(line: bytes, above: Callable[[int], Sequence[bytes]]) -> bool:
    """A line of a traceback that quotes a file or its code (`raise RuntimeError("CUDA error")`), not what happened."""
    if not line.startswith(b"  "):
        return False
    if line.lstrip().startswith(b'File "'):
        return True
    depth = len(line) - len(line.lstrip(b" "))
    return depth >= 4 and any(
        text[: depth - 2].isspace() and text[depth - 2 :].startswith(b'File "') for text in above(1)
    )
