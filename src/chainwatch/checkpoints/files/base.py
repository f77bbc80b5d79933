"""How the bytes of one file are judged: a ranged reader with limits, and what a file kind answers.

Nothing here trusts the file: every length that it states is checked against its real size before anything is read, a
quick check reads a bounded number of bytes, FIFOs and devices are never opened, and each thing that goes wrong becomes
a `Fault`, never a traceback.

A file kind is a module in this folder with one function::

    def check(reader: Reader, deep: bool) -> Finding

It raises `Broken` (or lets `Reader.read` raise it) as soon as the structure is wrong, else it returns a `Finding`.
Quick (``deep=False``) must find a cut at any byte; deep also reads all data and verifies every checksum there is.
`chainwatch.checkpoints.files.examine` finds the kind, calls it, and turns every error into a fault.

Valid for Python 3.8 with the standard library alone; heavy modules are imported inside the functions that need them.
"""

from __future__ import annotations

import errno
import os
import stat

from chainwatch.checkpoints.polite import spend
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    Identity = Tuple[int, int, int, int, int]
    """(device, inode, size, mtime_ns, ctime_ns): a file whose identity is unchanged need not be read again."""

QUICK_BYTES = 256 << 20
"""Bytes that one quick check may read of one file; metadata of the largest real checkpoints is far below."""
QUICK_READS = 2_000_000
BLOCK = 1 << 18
"""Block of a deep read: flat memory, and a checksum finds it still in the cache of the core."""
AT_ONCE = 4 << 20
"""Bytes of one read of metadata: with a limit on the rate, a longer one would look like storage that stands still."""
_free_buffers: List[memoryview] = []
"""Buffers of deep reads that nobody uses now: a new one for each of a thousand tensors would cost more than it holds."""


class Fault(NamedTuple):
    """What is wrong with one file; becomes a `Problem` once the name is known."""

    code: str
    """A stable word: truncated, empty, missing, dangling, unreadable, not_regular, structure, checksum, changed, limit,
    world_size, step, pointer, uncommitted, mixed."""
    expected: str
    found: str


class Broken(Exception):
    """Raised inside a file kind where the structure is wrong; carries the fault."""

    def __init__(self, code: str, expected: str, found: str) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.fault = Fault(code, expected, found)


NO_FACTS: Dict[str, Any] = {}


class Finding(NamedTuple):
    """What one file kind says of one file."""

    kind: str
    faults: Tuple[Fault, ...] = ()
    warnings: Tuple[str, ...] = ()
    checksummed: bool = False
    """True where the format carries checksums over all tensor data, so that a deep check would see a flipped bit."""
    facts: Dict[str, Any] = NO_FACTS
    """Small things that formats ask for (JSON-able): world size, steps, tensors, extents of other files …"""

    @property
    def ok(self) -> bool:
        return not self.faults


class Reader:
    """The bytes of one regular file, by offset.

    `read` gives exactly the bytes asked for or raises `Broken`, and counts towards the quick limits. `blocks` streams a
    range for deep checks, without a limit and with flat memory; it may be used from several threads.
    """

    __slots__ = ("_bytes", "_reads", "fd", "name", "progress", "size", "stat")

    def __init__(self, path: str, progress: Optional[Callable[[int], None]] = None) -> None:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Broken("not_regular", "a regular file", kind_of_mode(info.st_mode))
        # O_NONBLOCK: were the file swapped for a FIFO just now, open() would wait for ever.
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self.stat = os.fstat(self.fd)
        if not stat.S_ISREG(self.stat.st_mode):
            os.close(self.fd)
            raise Broken("not_regular", "a regular file", kind_of_mode(self.stat.st_mode))
        self.name = os.path.basename(path)
        self.size = self.stat.st_size
        self.progress = progress
        self._bytes = QUICK_BYTES
        self._reads = QUICK_READS

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`; `Broken` (truncated) where the file ends before, (limit) where a quick
        check would read too much."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise Broken("truncated", f"{grouped(offset + length)} bytes", f"file ends at {grouped(self.size)} bytes")
        self._bytes -= length
        self._reads -= 1
        if self._bytes < 0 or self._reads < 0:
            raise Broken("limit", f"metadata below {human(QUICK_BYTES)}", "more metadata than a checkpoint can have")
        data = os.pread(self.fd, min(length, AT_ONCE), offset)
        spend(len(data))
        while len(data) < length:
            more = os.pread(self.fd, min(length - len(data), AT_ONCE), offset + len(data))
            if not more:
                raise Broken("truncated", f"{grouped(self.size)} bytes", "the file became shorter while it was read")
            spend(len(more))
            data += more
        return data

    def blocks(self, offset: int, length: int) -> Iterator[memoryview]:
        """The range in blocks of `BLOCK` bytes; each block is valid until the next is asked for."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise Broken("truncated", f"{grouped(offset + length)} bytes", f"file ends at {grouped(self.size)} bytes")
        try:
            buffer = _free_buffers.pop()
        except IndexError:
            buffer = memoryview(bytearray(BLOCK))
        end = offset + length
        try:
            while offset < end:
                count = os.preadv(self.fd, [buffer[: min(BLOCK, end - offset)]], offset)
                if count <= 0:
                    raise Broken("truncated", f"{grouped(self.size)} bytes", "it became shorter while it was read")
                spend(count)
                if self.progress is not None:
                    self.progress(count)
                yield buffer[:count]
                offset += count
        finally:
            _free_buffers.append(buffer)

    def changed(self) -> Optional[Fault]:
        """A fault where the file was written to since it was opened."""
        now = os.fstat(self.fd)
        if identity(now)[2:4] != identity(self.stat)[2:4]:
            return Fault("changed", "a file at rest", "it was written to while it was read")
        return None


def identity(info: os.stat_result) -> Identity:
    """What makes a file the same as before, for caches."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def kind_of_mode(mode: int) -> str:
    """A word for people: what sort of file this is."""
    for test, word in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return word
    return "no regular file"


def fault_of_error(error: OSError, path: str) -> Fault:
    """The fault that an operating system error means for a checkpoint file."""
    if error.errno == errno.ENOENT:
        if os.path.islink(path):
            return Fault("dangling", "the file that the link names", f"a dangling link to {_target(path)}")
        return Fault("missing", "the file", "not there")
    if error.errno == errno.ELOOP:
        return Fault("dangling", "a file", "a loop of links")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Fault("unreadable", "a readable file", "permission denied")
    return Fault("unreadable", "a readable file", os.strerror(error.errno) if error.errno else str(error))


def _target(path: str) -> str:
    try:
        return printable(os.readlink(path))
    except OSError:
        return "nowhere"


def printable(name: str) -> str:
    """A file name as it may be shown: control characters and undecodable bytes are escaped."""
    return name if name.isprintable() else name.encode("unicode_escape", "backslashreplace").decode("ascii", "replace")


def grouped(count: int) -> str:
    """522240 -> 522,240."""
    return f"{count:,}"


def human(size: float) -> str:
    """9_200_000_000 -> 9.2 GB (powers of ten, as disks are sold)."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return str(size)
