"""The part of a pickle that is in memory: a window that moves over the file, so that size costs no memory."""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Reader, grouped
from chainwatch.checkpoints.files.pickle_words import SHORT

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Optional, Tuple

WINDOW = 1 << 18


class Window:
    """Bytes `start` to `end` of a reader, as far as `buffer` holds them; `IndexError` where the pickle runs past `end`."""

    __slots__ = ("base", "buffer", "end", "i", "reader")

    def __init__(self, reader: Reader, start: int, end: int, data: Optional[bytes]) -> None:
        self.reader = reader
        self.base = start
        """Offset in the file of the first byte of the buffer."""
        self.end = end
        self.buffer = reader.read(start, min(WINDOW, end - start)) if data is None else data
        self.i = 0
        """Position in the buffer, as far as the machine has told it."""

    def at_end(self) -> bool:
        return self.base + len(self.buffer) >= self.end and self.i >= len(self.buffer) - 10

    def where(self) -> str:
        return f"offset {grouped(self.base + self.i)}"

    def refill(self, i: int, need: int) -> Tuple[bytes, int, int]:
        """Move the window to position `i` of the buffer; it then holds `need` bytes or ends at the end."""
        self.base += i
        if self.base > self.end or need > self.end - self.base:
            self.run_out()
        self.buffer = self.reader.read(self.base, min(max(WINDOW, need), self.end - self.base))
        return self.window()

    def window(self) -> Tuple[bytes, int, int]:
        """The buffer, its size, and the position from which an opcode might reach over its end."""
        size = len(self.buffer)
        return self.buffer, size, size - 16 if self.base + size < self.end else size

    def line(self, i: int) -> Tuple[bytes, int]:
        """The bytes up to the newline, and the position after it; may move the window."""
        stop = self.buffer.find(b"\n", i, i + SHORT)
        if stop < 0:
            i, _ = 0, self.refill(i, 0)
            stop = self.buffer.find(b"\n", 0, SHORT)
            if stop < 0:
                if self.base + len(self.buffer) >= self.end:
                    self.i = len(self.buffer)
                    raise IndexError
                raise ValueError
        return self.buffer[i:stop], stop + 1

    def long_bytes(self, i: int, length: int) -> Tuple[Optional[bytes], int]:
        """A payload that reaches over the end of the window: its bytes, None where it is too long to keep."""
        if length > SHORT:
            if length > self.end - self.base - i:
                self.run_out()
            self.refill(i + length, 0)
            return None, 0
        self.refill(i, length)
        return self.buffer[:length], length

    def run_out(self) -> None:
        """Something reaches over the end: say so, with the position there."""
        self.base, self.buffer, self.i = self.end, b"", 0
        raise IndexError
