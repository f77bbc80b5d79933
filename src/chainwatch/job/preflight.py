"""Is this node fit to run? Checked once a node before the command starts, so that a bad node costs a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import List, Mapping, NamedTuple, Optional, Sequence

REFUSED = 75
"""Exit code of a node that is not fit (EX_TEMPFAIL: another node may do)."""


class Wanted(NamedTuple):
    """What a node must have."""

    command: str = ""
    """Shell command of the user; an exit code other than 0 refuses the node."""
    free: int = 0
    """Bytes that must be free where the checkpoints lie."""
    paths: Sequence[str] = ()
    """Paths that must be readable: mounts, data sets."""
    gpus: int = 0
    """GPUs that nvidia-smi must list."""
    seconds: float = 300.0
    """How long each check may take."""

    @property
    def anything(self) -> bool:
        return bool(self.command or self.free or self.paths or self.gpus)


class Refusal(NamedTuple):
    """Why the command must not start here."""

    why: str
    node_at_fault: bool
    """False: the shared storage is full, say, which no other node would mend."""


def check(wanted: Wanted, run: str, environment: Mapping[str, str]) -> Optional[Refusal]:
    """The first thing that is wrong; None where the node is fit."""
    for path in wanted.paths:
        why = _unreadable(path, wanted.seconds)
        if why:
            return Refusal("%s is not readable: %s" % (path, why), True)
    if wanted.free:
        where = run
        while where and not os.path.isdir(where):
            where = os.path.dirname(where)
        try:
            free = shutil.disk_usage(where or ".").free
        except OSError as error:
            return Refusal("%s: %s" % (where, error.strerror), True)
        if free < wanted.free:
            return Refusal("%.1f GB are free at %s, %.1f GB are wanted" % (free / 1e9, where, wanted.free / 1e9), False)
    if wanted.gpus:
        why = _gpus_wrong(wanted, environment)
        if why:
            return Refusal(why, True)
    if wanted.command:
        why = _run(["/bin/sh", "-c", wanted.command], wanted.seconds, environment, "the preflight")
        if why:
            return Refusal(why, True)
    return None


def _unreadable(path: str, seconds: float) -> str:
    """Asked in a process of its own, since a dead mount would hang this one."""
    return _run(["ls", "-d", "--", os.path.join(path, "")] if os.path.basename(path) == "" else ["ls", "-d", "--", path],
                seconds, os.environ, "looking at it")  # fmt: skip


def _gpus_wrong(wanted: Wanted, environment: Mapping[str, str]) -> str:
    query = ["nvidia-smi", "--query-gpu=index,ecc.errors.uncorrected.volatile.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, env=dict(environment), capture_output=True, timeout=wanted.seconds, check=False)
    except FileNotFoundError:
        return "nvidia-smi is not there, and %d GPUs are wanted" % wanted.gpus
    except (OSError, subprocess.TimeoutExpired) as error:
        return "nvidia-smi gave no answer: %s" % error
    if done.returncode != 0:
        return "nvidia-smi exits with %d: %s" % (done.returncode, _last(done.stdout + done.stderr))
    rows = [row.split(",") for row in done.stdout.decode("utf-8", "replace").splitlines() if row.strip()]
    if len(rows) < wanted.gpus:
        return "%d GPUs are there, %d are wanted" % (len(rows), wanted.gpus)
    for row in rows:
        errors = row[1].strip() if len(row) > 1 else ""
        if errors.isdigit() and int(errors) > 0:
            return "GPU %s has %s uncorrected ECC errors since its last reset" % (row[0].strip(), errors)
    return ""


def _run(command: List[str], seconds: float, environment: Mapping[str, str], name: str) -> str:
    """Why it failed; empty if it did not."""
    try:
        done = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        return "%s cannot be started: %s" % (name, error.strerror)
    try:
        output, _ = done.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        done.kill()  # not waited for: on a dead mount it cannot die
        return "%s gave no answer within %d s" % (name, seconds)
    if done.returncode == 0:
        return ""
    return "%s exits with %d: %s" % (name, done.returncode, _last(output))


def _last(output: bytes) -> str:
    lines = [each.strip() for each in output.decode("utf-8", "replace").splitlines() if each.strip()]
    return lines[-1][:300] if lines else "no output"
