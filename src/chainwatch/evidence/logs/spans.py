"""Pieces of text by their positions: lines that differ in more than digits, and ranges that touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_MATCHED = 1 << 15
"""Of a longer line its first and last half of this many bytes are matched."""
_ALIKE = 24
"""So many lines of one piece that differ only in digits are looked at, and the last one."""
_SHAPE = bytes.maketrans(b"\r", b"\n")
_SHAPES = 20_000
"""Kinds of lines that are remembered while one piece is read."""


def without_middle(line: bytes) -> bytes:
    half = _MATCHED // 2
    return line if len(line) <= _MATCHED else b"%s ... %s" % (line[:half], line[-half:])


def unalike(text: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Spans of lines, cut at newlines and carriage returns, without the bulk of those that differ only in digits.

    A million such lines say the same: the first few are given, and the last one, out of order at the end.
    """
    seen: dict[bytes, int] = {}
    last: dict[bytes, tuple[int, int]] = {}
    own = text[start:] if start else text
    lines = (own.replace(b"\r", b"\n") if b"\r" in own else own).split(b"\n")
    at = start
    for length, shape in zip(map(len, lines), own.translate(_SHAPE, b"0123456789").split(b"\n"), strict=True):
        count = seen.get(shape, 0)
        if count >= _ALIKE:
            last[shape] = (at, at + length)
        elif length:
            if len(seen) < _SHAPES:
                seen[shape] = count + 1
            yield at, at + length
        at += length + 1
    yield from sorted(last.values())


def merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ascending ranges, with those that touch made one."""
    low = high = -1
    for begin, end in ranges:
        if begin > high:
            if high > low:
                yield low, high
            low, high = begin, end
        else:
            high = max(high, end)
    if high > low:
        yield low, high
