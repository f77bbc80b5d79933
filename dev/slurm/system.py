"""Another system's Slurm: a directory tree with the programs of another Debian suite, run in a chroot.

The private cluster uses it like the machine's own: for each program lies a command of the same name in the cluster's
directory, which runs it inside. Each command has mounts of its own (a mount namespace), so nothing is ever left mounted.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

MARK = ".chainwatch-system"
"""A file at the top of such a tree: a command that finds it is inside already (a job's `srun`)."""

_DIRECTORIES = ("usr/local/sbin", "usr/sbin", "usr/local/bin", "usr/bin")
_ENTER = """#!/bin/sh
# Run a program of the tree {root}: the same directory where it has that, the same environment.
[ -e /{mark} ] && exec "$@"
if [ "$1" != --inside ]; then
    [ -e {root}/proc/self ] || exec unshare --mount --propagation private "$0" --inside "$@"
else
    shift
    mount --rbind /proc {root}/proc && mount --rbind /sys {root}/sys && mount --rbind /dev {root}/dev || exit 126
    for shared in {shared}; do mount --rbind "$shared" {root}"$shared" || exit 126; done
fi
here=$PWD
[ -d {root}"$here" ] || here=/
exec chroot {root} /usr/bin/env -C "$here" "$@"
"""


def find(system: Path, program: str) -> str | None:
    """Path of a program inside the tree, as the tree sees it; None where it is not installed there."""
    for directory in _DIRECTORIES:
        # Debian's alternatives (slurmd for slurmd-wlm) are made by a package's scripts, which were not run.
        for name in (program, f"{program}-wlm"):
            if os.access(system / directory / name, os.X_OK):
                return f"/{directory}/{name}"
    return None


def write_commands(system: Path, into: Path, programs: list[str], shared: list[Path]) -> None:
    """Write `into/PROGRAM` for each program that the tree has. `shared` directories are the same inside and outside."""
    into.mkdir(parents=True, exist_ok=True)
    outermost = [path for path in shared if not any(path != other and path.is_relative_to(other) for other in shared)]
    for path in outermost:
        (system / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
    enter = into / "enter"
    words = " ".join(shlex.quote(str(path)) for path in outermost)
    enter.write_text(_ENTER.format(root=shlex.quote(str(system)), mark=MARK, shared=words))
    enter.chmod(0o755)
    for program in programs:
        inside = find(system, program)
        if inside is not None:
            write_command(into, program, inside)


def write_command(into: Path, name: str, inside: str) -> Path:
    """Write the command `into/name` for the program that the tree has at `inside`; its path."""
    command = into / name
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(into / "enter"))} {inside} "$@"\n')
    command.chmod(0o755)
    return command
