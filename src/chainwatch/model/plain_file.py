"""Reading a file that somebody named: a FIFO there would wait for ever, and a device would never end."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = 4096
MOST_BYTES = 16 << 20
"""Larger than any text that a person writes."""


def open_plain(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file, for reading. Raises OSError, also where the path is a FIFO, a device, a folder."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, a device that nothing stands behind
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path)) from None
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def gives_way(path: str | os.PathLike[str], ours: Callable[[bytes], bool]) -> None:
    """That a file that a person named may be replaced by a rename: there is none, an empty one, or one that is ours by its
    first bytes. Raises OSError otherwise: a rename would put a file in the place of a device, too."""
    try:
        handle = open_plain(path)
    except FileNotFoundError:
        return
    with os.fdopen(handle, "rb") as file:
        head = file.read(_HEAD)
    if head and not ours(head):
        said = "it is there and nothing that chainwatch wrote, so it is left as it is: name another file"
        raise FileExistsError(errno.EEXIST, said, os.fspath(path))


def may_exist(path: str | os.PathLike[str]) -> bool:
    """False: it is surely not there. A folder on the way that may not be looked into is no proof of that."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read_plain(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError, also where it is no such file or holds more than `most` bytes."""
    with os.fdopen(open_plain(path), "rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MiB", os.fspath(path))
    return raw


def text_of(path: str | os.PathLike[str], errors: str = "replace") -> str:
    """The text of a file as `read_plain` reads it, in UTF-8, with line ends as `open` would give them."""
    return read_plain(path).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")
