"""The logs of one attempt as one stream of lines: several files merged by time where their lines are stamped."""

from __future__ import annotations

import heapq
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from chainwatch.evidence.logs.attempt import attempt_start
from chainwatch.evidence.logs.file import LogReader, Unreadable
from chainwatch.evidence.logs.text import aware, stamp

_PIECE = 1 << 20
_PROBE = 1 << 14
_SPLIT = 64 << 20
"""A file that several attempts share is split among them up to this size; a larger one belongs to the last of them."""
_ESCAPES = re.compile(
    rb"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one file that an attempt wrote."""

    path: str
    start: int
    end: int | None = None
    """None: to the end of the file, as it is when it is read."""


def plain(line: bytes) -> bytes:
    """Without what a terminal would obey: a log is text."""
    return _ESCAPES.sub(b"", line)


def parts(path: str, starts: Sequence[datetime | None]) -> list[Part]:
    """Which part of a file each of the attempts that began at these moments wrote. Raises Unreadable.

    After a requeue in append mode one file holds several attempts; where Slurm began it anew, the last one's alone.
    """
    with LogReader(path) as log:
        if len(starts) == 1 or log.size > _SPLIT or any(start is None for start in starts):
            return [Part(path, 0, 0)] * (len(starts) - 1) + [Part(path, 0)]
        text = log.read(0, log.size)
        year = datetime.fromtimestamp(log.modified, UTC).year
    cuts = [0, *(attempt_start(text, start, year) for start in starts[1:] if start is not None)]
    ends: list[int | None] = [*cuts[1:], None]
    return [Part(path, cut, end) for cut, end in zip(cuts, ends, strict=True)]


def merged(files: Sequence[Part]) -> Iterator[bytes]:
    """The lines of these parts, in the order of their stamps where every file has some, else one file after the other
    under its name. Files that cannot be read are named."""
    texts = [part for part in files if part.end is None or part.end > part.start]
    if len(texts) > 1 and all(_stamped(part) for part in texts):
        streams = [_timed(part, number) for number, part in enumerate(texts)]
        yield from (line for _, _, line in heapq.merge(*streams, key=lambda item: item[:2]))
        return
    for part in texts:
        if len(texts) > 1:
            yield f"==> {part.path} <==\n".encode(errors="surrogateescape")
        yield from lines(part)


def lines(part: Part) -> Iterator[bytes]:
    """Whole lines with their ends; of a bar that was drawn over and over only its last state."""
    try:
        with LogReader(part.path) as log:
            end = log.size if part.end is None else min(part.end, log.size)
            at, rest = part.start, b""
            while at < end:
                piece = log.read(at, min(end, at + _PIECE))
                if not piece:
                    break
                at += len(piece)
                *whole, rest = (rest + piece).split(b"\n")
                yield from (_last_state(line) + b"\n" for line in whole)
                rest = rest if len(rest) < _PIECE else rest[-_PIECE:]
            if rest:
                yield _last_state(rest) + b"\n"
    except Unreadable as error:
        yield f"chainwatch: {error}\n".encode(errors="surrogateescape")


class Tail:
    """What is appended to a file from now on; a file that was cut or replaced is read from its beginning."""

    def __init__(self, path: str, last: int = 0) -> None:
        """`last`: how many of its last lines come first."""
        self.path = path
        self._inode: int | None = None
        self._offset = 0
        self._last = last

    def new(self) -> bytes:
        """The text since the last call, up to the end of a line. Empty where there is none, or no file."""
        try:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode):
                return b""
            if self._inode is None:
                self._inode, self._offset = status.st_ino, self._begin()
            elif self._inode != status.st_ino or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
            with LogReader(self.path) as log:
                text = log.read(self._offset, min(log.size, self._offset + 4 * _PIECE))
        except (OSError, Unreadable):
            return b""
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._offset += end
        return text[:end]

    def _begin(self) -> int:
        with LogReader(self.path) as log:
            start = max(0, log.size - _PIECE)
            text = log.read(start, log.size)
        at = len(text)
        if self._last == 0 and text.endswith(b"\n"):
            return start + at
        for _ in range(self._last + 1):
            at = text.rfind(b"\n", 0, at)
            if at < 0:
                return start
        return start + at + 1


def _stamped(part: Part) -> bool:
    try:
        with LogReader(part.path) as log:
            head = log.read(part.start, part.start + _PROBE)
            year = datetime.fromtimestamp(log.modified, UTC).year
    except Unreadable:
        return False
    return any(stamp(line, year) is not None for line in head.split(b"\n"))


def _timed(part: Part, number: int) -> Iterator[tuple[datetime, int, bytes]]:
    """Lines with their moment; one without a stamp belongs to the line before it."""
    at = datetime.min.replace(tzinfo=UTC)
    year = datetime.now(UTC).year
    for line in lines(part):
        when = stamp(line, year)
        if when is not None:
            at = max(at, aware(when))
        yield at, number, line


def _last_state(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]
