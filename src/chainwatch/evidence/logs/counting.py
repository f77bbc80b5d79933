"""Progress in words that no profile knows: lines of one shape in which a count rises.

No step is read from them, since nobody knows what they count. They only say that the program still worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_LONGEST = 300
_COUNT = re.compile(rb"\b(\d{1,12})(?: ?/ ?(\d{1,12}))?\b")
_MEASURE = re.compile(rb"\d\.\d+|\b\d+(?:\.\d+)?e[+-]?\d+\b|\b\d+(?: ?/ ?| of )\d+\b")
_NO_WORK = re.compile(
    rb"(?i)0x[0-9a-f]|^ *[#*@]?\d+[):]|^ *(?:#\d|frame|at |in |File |[^\w\s]{3})"
    rb"|error|warn|fail|except|abort|kill|signal|exit|wait|retr|attempt|\btr(?:y|ies)\b|sleep|time.?out|poll|heartbeat|alive"
    rb"|rank|worker|node|host|task|process|thread|core|device|gpu|pid|port|nccl|slurm|srun|torch|load|sync|wandb|\b[kMG]i?B\b|memory|allocat|\bmem\b"
)
"""Lists of ranks and of frames, tables of memory, loops that wait: they count too, and nothing works."""


@dataclass(slots=True)
class _Shape:
    """Lines that differ in their digits only."""

    places: list[int] = field(default_factory=list)
    last: tuple[int, ...] = ()


def counting(text: bytes, enough: int = 2) -> list[int]:
    """Positions of the lines that go on counting: at least `enough` of one shape.

    Each has a count that is larger than in the line before, and a measure: a fraction, or a count of a total.
    """
    shapes: dict[bytes, _Shape] = {}
    for begin, line in _lines(text):
        if not 4 <= len(line) <= _LONGEST or not _MEASURE.search(line) or _NO_WORK.search(line):
            continue
        counts = tuple(int(found[1]) for found in _COUNT.finditer(line))
        shape = shapes.setdefault(_shape(line), _Shape())
        if counts and (not shape.last or _rises(shape.last, counts)):
            shape.places.append(begin)
            shape.last = counts
    most = max((shape.places for shape in shapes.values()), key=len, default=[])
    return most if len(most) >= enough else []


def _rises(before: Sequence[int], after: Sequence[int]) -> bool:
    """The first number that differs is larger: the step, or the epoch that it belongs to."""
    return next((b > a for a, b in zip(before, after, strict=False) if a != b), False)


def _shape(line: bytes) -> bytes:
    return re.sub(rb"[-+]?\d[\d.,]*(?:e[+-]?\d+)?|\bnan\b|\s+", b"", line.lower())


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        yield at, line
        at += len(line) + 1
