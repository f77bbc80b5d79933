"""Free space and inodes where a chain saves: statvfs, and the user's quota where the site has one.

Asked in a reader process, since both may hang with the storage.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache

from chainwatch.model.room import Room

QUOTA_EVERY = 600.0
"""Seconds for which the answer of `quota` or `lfs quota` is good."""
_QUOTA_DEADLINE = 10.0


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
    """What `quota -p -w` (quota-tools) leaves on one file system.

    Columns: file system, KiB used (`*` behind it where over), soft and hard limit, grace, files, soft, hard, grace. A limit
    of 0 is none; the soft one counts, since saves fail soon after it.
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[0] in {source, mount}:
            numbers = [word.rstrip("*") for word in words[1:9]]
            if not all(number.isdigit() for number in numbers[:3] + numbers[4:7]):
                continue
            used, soft, hard, _, files, files_soft, files_hard = (int(n) if n.isdigit() else 0 for n in numbers[:7])
            return Left(_left(used, soft or hard, 1024), _left(files, files_soft or files_hard, 1))
    return Left()


def parse_lfs(text: str) -> Left:
    """What `lfs quota -q` leaves: file system, KiB used, quota, limit, grace, files, quota, limit, grace."""
    words = [word.rstrip("*") for word in text.split()]
    if len(words) < 9 or not all(words[i].isdigit() for i in (1, 2, 3, 5, 6, 7)):
        return Left()
    used, soft, hard, files, files_soft, files_hard = (int(words[i]) for i in (1, 2, 3, 5, 6, 7))
    return Left(_left(used, soft or hard, 1024), _left(files, files_soft or files_hard, 1))


def _left(used: int, limit: int, unit: int) -> int | None:
    return max(0, limit - used) * unit if limit else None


def mounted(directory: str, table: str = "/proc/self/mounts") -> tuple[str, str, str]:
    """Mount point, source and type of the file system that holds a directory; empty where nothing says it."""
    try:
        with open(table, errors="surrogateescape") as file:
            lines = [line.split(" ") for line in file]
    except OSError:
        return "", "", ""
    real = os.path.realpath(directory)
    best: tuple[str, str, str] = "", "", ""
    for words in lines:
        if len(words) < 3:
            continue
        point = words[1].encode(errors="surrogateescape").decode("unicode_escape", errors="replace")
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and len(point) >= len(best[0]):
            best = point, words[0], words[2]
    return best


def _existing(directory: str) -> str:
    """The directory, or the nearest one above it that exists."""
    here = os.path.abspath(directory)
    while not os.path.isdir(here) and here != "/":
        here = os.path.dirname(here)
    return here
