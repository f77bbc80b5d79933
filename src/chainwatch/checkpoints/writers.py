"""Does a living process hold a checkpoint open for writing? Read from /proc, as far as it may be read."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterator

MAX_PROCESSES = 5_000


def has_writer(path: str) -> bool:
    """True where a process that we may look at has `path`, or a file below it, open for writing.

    False proves nothing: processes of other users and of other nodes cannot be seen.
    """
    real = os.path.realpath(path)
    below = real + os.sep
    for fd in _descriptors():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if (target == real or target.startswith(below)) and _writes(fd):
            return True
    return False


def _descriptors() -> Iterator[str]:
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in processes[:MAX_PROCESSES]:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                yield f"/proc/{pid}/fd/{fd}"
        except OSError:
            continue


def _writes(fd: str) -> bool:
    try:
        with open(fd.replace("/fd/", "/fdinfo/"), encoding="ascii") as info:
            for line in info:
                if line.startswith("flags:"):
                    return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):
        pass
    return False
