"""Which kind of file system a path lies on.

SQLite's write-ahead log shares memory between the processes that use a database. That works on one machine only
(https://sqlite.org/wal.html), and home directories of clusters are network file systems seen from several login nodes.
"""

from __future__ import annotations

import os
from pathlib import Path

from chainwatch.model import mounts

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
    """The type of the file system that holds `path` (which need not exist), as the kernel names it; empty if unknown."""
    try:
        text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    found = mounts.deepest(os.path.realpath(path), mounts.mountinfo(text))
    return found[0] if found else ""


def is_local(path: Path, mountinfo: Path = MOUNTINFO) -> bool:
    """The path surely lies on a file system of this machine alone."""
    return filesystem_type(path, mountinfo) in LOCAL
