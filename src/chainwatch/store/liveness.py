"""Is the process behind a lease surely dead? A wrong yes would let two daemons act."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def kernel() -> str:
    """Names the running kernel and this process's pid namespace: only under the same name does a pid mean the same
    process. Host names do not do: containers and cloned images share them. Empty where /proc does not say."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty if it does not exist, or only waits to be reaped."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # proc(5), from field 3 on; the command in brackets may hold blanks
    return "" if fields[0] in "ZX" else fields[19]


def pid_of(holder: str) -> int | None:
    """The pid in `host:pid`."""
    digits = holder.rpartition(":")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def surely_dead(holder: str, holder_kernel: str, holder_started: str) -> bool:
    """The lease's process ran under this kernel and is gone (or its pid is another process now).

    No answer for a holder on another machine, in another container or before a reboot: its lease just runs out.
    """
    pid = pid_of(holder)
    if pid is None or not holder_kernel or not holder_started or holder_kernel != kernel():
        return False
    return started(pid) != holder_started and not _hidden(pid)


def _hidden(pid: int) -> bool:
    """The process exists though /proc does not show it (mounted with hidepid)."""
    if (_PROC / str(pid)).exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
