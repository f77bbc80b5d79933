"""What a client prints, read until it ends, its time is up, or it has printed more than any answer is long."""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import time

MOST_OUTPUT = 256 << 20
"""Bytes of stdout and stderr together. A row of accounting is a kilobyte or two: this is more than a hundred thousand.
A client that prints for ever would take the memory of the login node."""
_PIECE = 1 << 16


class OutOfTime(Exception):
    """The client's time is up."""

    def __init__(self, printed: bytes) -> None:
        super().__init__()
        self.printed = printed
        """Its stdout until then."""


class TooMuch(Exception):
    """The client printed more than `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most


def exchange(
    process: subprocess.Popen[bytes], stdin: bytes | None, until: float, most: int | None = None
) -> tuple[bytes, bytes]:
    """Write `stdin` to a client and read its stdout and stderr to their ends.

    `until` is a moment of `time.monotonic`; `most` is `MOST_OUTPUT` by default. Raises `OutOfTime`, `TooMuch`.
    """
    most = MOST_OUTPUT if most is None else most
    assert process.stdout is not None, "it is a pipe"
    assert process.stderr is not None, "it is a pipe"
    stdout, stderr = bytearray(), bytearray()
    rest = memoryview(stdin or b"")
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdout, selectors.EVENT_READ, stdout)
        pipes.register(process.stderr, selectors.EVENT_READ, stderr)
        if process.stdin is not None:
            pipes.register(process.stdin, selectors.EVENT_WRITE)
        while pipes.get_map():
            left = until - time.monotonic()
            if left <= 0:
                raise OutOfTime(bytes(stdout))
            for key, _ in pipes.select(left):
                if key.fileobj is process.stdin:
                    rest = _write(key.fd, rest)
                    ended = not rest
                else:
                    piece = os.read(key.fd, _PIECE)
                    key.data.extend(piece)
                    ended = not piece
                if ended:
                    pipes.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            if len(stdout) + len(stderr) > most:
                raise TooMuch(most)
    return bytes(stdout), bytes(stderr)


def _write(pipe: int, rest: memoryview) -> memoryview:
    """What is still to be written; nothing where nobody reads it any more."""
    try:
        return rest[os.write(pipe, rest[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return rest[:0]
