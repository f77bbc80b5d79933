"""Which kind of file system a path lies on.

SQLite's write-ahead log shares memory between the processes that use a database. That works on one machine only
(https://sqlite.org/wal.html), and home directories of clusters are network file systems seen from several login nodes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

LOCAL = frozenset(
    {
        "bcachefs",
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "overlay",
        "ramfs",
        "reiserfs",
        "tmpfs",
        "xfs",
        "zfs",
    }
)
"""File systems of one machine. Any other (nfs, nfs4, lustre, gpfs, beegfs, cifs, smb3, ceph, afs, fuse.*, 9p, panfs,
wekafs, an unknown word) is taken for a shared one: that costs a little speed, the opposite mistake costs the data."""

MOUNTINFO = Path("/proc/self/mountinfo")


def filesystem_type(path: Path, mountinfo: Path = MOUNTINFO) -> str:
    """The type of the file system that holds `path` (which need not exist), as the kernel names it; empty if unknown.

    The deepest mount point above the path decides, and of two on the same point the later one, which hides the other.
    """
    target = os.path.realpath(path)
    best, found = -1, ""
    try:
        lines = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5 or not after:
            continue
        point = _unescaped(fields[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, found = len(point), after.split(" ", 1)[0]
    return found


def is_local(path: Path, mountinfo: Path = MOUNTINFO) -> bool:
    """The path surely lies on a file system of this machine alone."""
    return filesystem_type(path, mountinfo) in LOCAL


def _unescaped(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash of a mount point as three octal digits (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)
