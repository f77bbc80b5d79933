"""Opening a log safely, and reading it in pieces that end where lines end."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from types import TracebackType

from chainwatch.model.plain_file import open_plain

_SAMPLE = 1 << 14
_CONTROL = bytes({*range(7), *range(14, 27), *range(28, 32), 127})
"""Bytes that text has not: tabs, ends of lines, backspaces of progress bars and colours do not count."""
_A_FEW = 8
_MAGIC = re.compile(
    rb"PK\x03\x04|\x1f\x8b|BZh\d|\xfd7zXZ|\x28\xb5\x2f\xfd|\x89(?:PNG|HDF)|\xff\xd8\xff"
    rb"|\x7fELF|\x93NUMPY|%PDF-|(?s:.{257})ustar"
)


class Unreadable(Exception):
    """A log could not be read; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a file. Bytes before `own` are context only, and are looked at by another window."""

    base: int
    """Offset in the file of `text[0]`."""
    own: int
    text: bytes


class LogReader:
    """One regular file, opened without following it into a device or waiting for a FIFO's writer."""

    def __init__(self, path: str) -> None:
        """Raises `Unreadable`."""
        self.path = path
        try:
            self._fd = open_plain(path)
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from None
        status = os.fstat(self._fd)
        self.size = status.st_size
        self.modified = status.st_mtime
        self.bytes_read = 0

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end`, fewer at the end of the file. Raises `Unreadable` where the storage fails."""
        pieces: list[bytes] = []
        while start < end:
            try:
                piece = os.pread(self._fd, end - start, start)
            except OSError as error:
                raise Unreadable(f"{self.path}: {error.strerror}") from None
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
            self.bytes_read += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def window(self, start: int, end: int, context: int) -> Window:
        """Lines that begin in `start` to `end`, and `context` bytes before them."""
        base = max(0, start - context)
        text = self.read(base, min(self.size, end))
        own = start - base
        if start > 0:
            newline = text.find(b"\n", max(0, own - 1))
            own = len(text) if newline < 0 else newline + 1
        if end < self.size:
            text += self._rest_of_line(end)
        return Window(base, own, text)

    def refuse_what_is_no_text(self) -> None:
        """Raises `Unreadable` for an archive, an image, a program or tensors. Runs of zeros are holes of a log."""
        places = (0, max(0, self.size // 2 - _SAMPLE), max(0, self.size - _SAMPLE))
        samples = [self.read(place, min(self.size, place + _SAMPLE)) for place in dict.fromkeys(places)]
        foreign = sum(has_control(sample) for sample in samples)
        if _MAGIC.match(samples[0]) or foreign > len(samples) // 2:
            raise Unreadable(f"{self.path}: it is no text")

    def count_newlines(self, start: int, end: int) -> int:
        """Newlines between two offsets."""
        total = 0
        while start < end:
            piece = self.read(start, min(end, start + (1 << 20)))
            if not piece:
                break
            total += piece.count(b"\n")
            start += len(piece)
        return total

    def _rest_of_line(self, position: int) -> bytes:
        """From `position` to the end of the line that is under way there, at most a mebibyte."""
        rest = b""
        if self.read(position - 1, position) == b"\n":
            return rest
        while len(rest) < 1 << 20:
            piece = self.read(position, min(self.size, position + 4096))
            newline = piece.find(b"\n")
            if newline >= 0 or not piece:
                return rest + (piece[:newline] if newline >= 0 else b"")
            rest += piece
            position += len(piece)
        return rest


def has_control(text: bytes) -> bool:
    """More than a few bytes, and more than one in a hundred, belong to no text."""
    text = re.sub(rb"\0{8,}", b"", text)
    foreign = len(text) - len(text.translate(None, _CONTROL))
    return foreign > _A_FEW and 100 * foreign > len(text)
