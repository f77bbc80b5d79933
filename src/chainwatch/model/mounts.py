"""Which of the mounted file systems holds a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def deepest(target: str, mounts: Iterable[tuple[str, T]]) -> T | None:
    """What is said of the mount that holds `target`, of pairs of mount point (as the kernel writes it) and whatever is
    said of it.

    The deepest mount point above the path decides, and of two on the same point the later one, which hides the other.
    """
    best, found = -1, None
    for written, said in mounts:
        point = _unescaped(written)
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, found = len(point), said
    return found


def mountinfo(text: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Mount points of proc_pid_mountinfo(5), with the type of the file system and its options, comma-separated."""
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and after and len(fields) >= 5:
            yield fields[4], (rest[0], ",".join([*fields[5:6], *rest[2:3]]))


def _unescaped(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash of a mount point as three octal digits (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)
