"""Daemons as processes: started in the foreground, remembered by pid and start time, ended by exactly that identity."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, for good: a pid is reused, a pid with its start time (clock ticks since boot) is not."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """The process that has this pid now; None if there is none, or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))

    def alive(self) -> bool:
        """It still runs (a zombie does not)."""
        return ProcessId.of(self.pid) == self

    def send(self, signum: int) -> None:
        """Send a signal, if it is still the same process."""
        if self.alive():
            try:
                os.kill(self.pid, signum)
            except ProcessLookupError:
                pass

    def end(self, patience: float = 10.0) -> None:
        """SIGTERM, and SIGKILL after `patience` seconds. Returns when it is gone."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        deadline = time.monotonic() + patience
        while self.alive() and time.monotonic() < deadline:
            _reap(self.pid)
            time.sleep(0.02)
        self.send(signal.SIGKILL)
        while self.alive():
            _reap(self.pid)
            time.sleep(0.02)
        _reap(self.pid)


class Daemon:
    """One daemon of the cluster. Its identity lies in a file, so that another process can stop it too."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, run: Path) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log = log
        self._record = run / f"{name.replace(':', '-')}.process"

    @property
    def process(self) -> ProcessId | None:
        """The running process, None where it does not run."""
        try:
            identity = ProcessId(**json.loads(self._record.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if identity.alive():
            return identity
        _reap(identity.pid)
        return None

    def start(self) -> None:
        """Start it, in a session of its own: a Ctrl-C in the terminal is not for the daemons."""
        if self.process is not None:
            return
        with self.log.with_suffix(".out").open("ab") as log:
            child = subprocess.Popen(
                self.argv,
                env=self.env,
                cwd=self._record.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        identity = ProcessId.of(child.pid)
        if identity is not None:
            self._record.write_text(json.dumps({"pid": identity.pid, "started": identity.started}))
        # Ended by identity, not by this object: do not warn that a child still runs when it is collected.
        child.returncode = 0

    def signal(self, signum: int) -> None:
        """Send a signal, if it runs."""
        process = self.process
        if process is not None:
            process.send(signum)

    def stop(self) -> None:
        """End it and wait for that; nothing happens if it does not run."""
        process = self.process
        if process is not None:
            process.end()
        self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        process = self.process
        if process is not None:
            process.send(signal.SIGKILL)
            process.end()
        self._record.unlink(missing_ok=True)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log, or of what it printed where it did not come to logging."""
        for path in (self.log, self.log.with_suffix(".out")):
            if path.exists() and (text := path.read_text(errors="replace").strip()):
                return "\n".join(text.splitlines()[-lines:])
        return ""


def job_processes(conf: Path, roots: Sequence[Path]) -> list[ProcessId]:
    """What the jobs of one cluster left running: slurmstepd processes and everything that they started.

    A slurmstepd detaches itself from its slurmd, but keeps slurmd's log open; job processes have SLURM_CONF and
    SLURM_JOB_ID in their environment. The sleep of an extern step has neither: it is known as slurmstepd's child.
    `roots` are the cluster's directory, and what it is called seen from inside a chroot.
    """
    wanted = f"SLURM_CONF={conf}".encode()
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        try:
            children.setdefault(_parent(entry), []).append(pid)
            environ = (entry / "environ").read_bytes().split(b"\0")
            in_job = wanted in environ and any(item.startswith(b"SLURM_JOB_ID=") for item in environ)
            if in_job or (_program(entry).startswith("slurmstepd") and _has_open(entry, roots)):
                found.add(pid)
        except OSError:
            continue
    pending = list(found)
    while pending:
        for child in children.get(pending.pop(), []):
            if child not in found:
                found.add(child)
                pending.append(child)
    identities = (ProcessId.of(pid) for pid in sorted(found))
    return [identity for identity in identities if identity is not None]


def _parent(entry: Path) -> int:
    return int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _program(entry: Path) -> str:
    return os.path.basename(os.readlink(entry / "exe"))


def _has_open(entry: Path, roots: Sequence[Path]) -> bool:
    prefixes = tuple(f"{root}/" for root in roots)
    return any(os.readlink(fd).startswith(prefixes) for fd in (entry / "fd").iterdir())


def _reap(pid: int) -> None:
    """Take a zombie away if it is our own child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except (ChildProcessError, OSError):
        pass
