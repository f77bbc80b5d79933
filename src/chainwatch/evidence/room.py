"""Free space and inodes where a chain saves: statvfs, and the user's quota where the site has one.

Asked in a reader process, since both may hang with the storage.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache

from chainwatch.evidence.quota import Quota, parse
from chainwatch.model.mounts import deepest
from chainwatch.model.room import Room

QUOTA_EVERY = 600.0
"""Seconds for which the answer of `quota` or `lfs quota` is good."""
_QUOTA_DEADLINE = 10.0
_KINDS = {"space": "bytes", "files": "files"}


def room(directory: str, save: tuple[int, int] | None, now: float) -> Room | None:
    """What is left at `directory`, which may not exist yet; `save`: bytes and files of a checkpoint. Raises OSError."""
    there = _existing(directory)
    status = os.statvfs(there)
    free_bytes = status.f_bavail * status.f_frsize
    free_files = status.f_favail if status.f_files else None
    bounded_by = "the disk"
    quota = _quota(there, int(now // QUOTA_EVERY))
    if quota.bytes is not None and quota.bytes < free_bytes:
        free_bytes, bounded_by = quota.bytes, "the quota"
    if quota.files is not None and (free_files is None or quota.files < free_files):
        free_files, bounded_by = quota.files, "the quota"
    size, files = save or (None, None)
    return Room(free_bytes, free_files, bounded_by, size or None, files or None)


class Left:
    """What a quota leaves; None where it sets no limit."""

    def __init__(self, bytes: int | None = None, files: int | None = None) -> None:
        self.bytes, self.files = bytes, files


@lru_cache(maxsize=256)
def _quota(directory: str, period: int) -> Left:
    """The user's quota on the file system of `directory`, asked once in a period."""
    del period
    mount, source, kind = mounted(directory)
    if kind == "lustre":
        return parse_lfs(_said("lfs", "quota", "-q", "-u", str(os.getuid()), mount))
    if kind in {"tmpfs", "overlay", "proc", ""}:
        return Left()
    return parse_quota(_said("quota", "-p", "-w", "-u", "-v"), source, mount)


def _said(*words: str) -> str:
    environment: Mapping[str, str] = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_QUOTA_DEADLINE,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # no such program, or no answer: the disk alone is known
    return done.stdout


def parse_quota(text: str, source: str, mount: str) -> Left:
    """What `quota -p -w` (quota-tools) leaves on one file system."""
    return _left([row for row in parse(text) if row.where in {source, mount}])


def parse_lfs(text: str) -> Left:
    """What `lfs quota -q` of one file system leaves."""
    return _left(parse(text))


def _left(rows: Sequence[Quota]) -> Left:
    return Left(**{_KINDS[row.what]: max(0, row.limit - row.used) for row in reversed(rows)})


def mounted(directory: str, table: str = "/proc/self/mounts") -> tuple[str, str, str]:
    """Mount point, source and type of the file system that holds a directory; empty where nothing says it."""
    try:
        with open(table, errors="surrogateescape") as file:
            lines = [line.split(" ") for line in file]
    except OSError:
        return "", "", ""
    found = deepest(os.path.realpath(directory), ((w[1], (w[1], w[0], w[2])) for w in lines if len(w) >= 3))
    return found or ("", "", "")


def _existing(directory: str) -> str:
    """The directory, or the nearest one above it that exists."""
    here = os.path.abspath(directory)
    while not os.path.isdir(here) and here != "/":
        here = os.path.dirname(here)
    return here
