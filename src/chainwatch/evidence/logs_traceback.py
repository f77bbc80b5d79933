"""When an exception was raised: where its traceback begins, not where its last line stands.

Ranks write into one file line by line, so that between the head of a traceback and the exception there may be all that
the other ranks had to say about the silence of this one.
"""

from __future__ import annotations

from collections.abc import Collection

from chainwatch.evidence.logs_text import clean

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
