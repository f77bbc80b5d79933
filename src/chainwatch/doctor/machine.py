"""Checks of this machine and the user's session: file systems, tickets, lingering, other instances."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from chainwatch.config.models import Config
from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.store.filesystem import filesystem_type, is_local

_SLOW = 0.5
_FULL = 0.95


def places(config: Config) -> dict[str, Path]:
    """The directories that matter, by what they are for."""
    found = {"state directory": config.state}
    for name, chain in config.chains.items():
        base = chain.directory or chain.batch.parent
        if chain.checkpoints is not None:
            found[f"checkpoints of {name}"] = base / chain.checkpoints.directory
    return found


def file_systems(patient: Patient) -> Iterator[Finding]:
    """Kind, space, inodes and latency of each file system that matters; one finding each."""
    if patient.config is None:
        return
    mountinfo = patient.root / "proc/self/mountinfo"
    seen: set[int] = set()
    for what, place in places(patient.config).items():
        there = next((p for p in (place, *place.parents) if p.exists()), None)
        if there is None or (device := there.stat().st_dev) in seen:
            continue
        seen.add(device)
        kind, network = filesystem_type(there, mountinfo), not is_local(there, mountinfo)
        begun = time.monotonic()
        try:
            stat = os.statvfs(there)
            next(iter(os.scandir(there)), None)
        except OSError as error:
            yield Finding(
                "storage", Level.PROBLEM, f"{what} ({there}) cannot be read: {error.strerror}", "", "Check permissions."
            )
            continue
        took = time.monotonic() - begun
        yield from _judged(what, there, kind or "an unknown file system", network, stat, took)


def _judged(
    what: str, place: Path, kind: str, network: bool, stat: os.statvfs_result, took: float
) -> Iterator[Finding]:
    free = stat.f_bavail * stat.f_frsize
    used = 1 - stat.f_bavail / stat.f_blocks if stat.f_blocks else 0.0
    where = f"{what} on {kind} ({'network' if network else 'local'})"
    if used > _FULL:
        yield Finding(
            "space",
            Level.PROBLEM,
            f"{where} is {used:.0%} full, {free / 1e9:.1f} GB left",
            "A save that finds no space leaves a damaged checkpoint.",
            "Free some space, or move it.",
        )
    elif stat.f_files and stat.f_favail / stat.f_files < 1 - _FULL:
        yield Finding("inodes", Level.PROBLEM, f"{where} has few inodes left", "Saves fail.", "Remove small files.")
    elif took > _SLOW:
        yield Finding(
            "latency", Level.ADVICE, f"{where} took {took:.1f} s to answer", "Checks of checkpoints are slow."
        )
    else:
        yield Finding("storage", Level.OK, f"{where}: {free / 1e9:.1f} GB free")
    if what == "state directory" and network:
        yield Finding(
            "state_on_network",
            Level.ADVICE,
            f"the state directory {place} lies on {kind}",
            "SQLite works there without its fast journal, and only as well as the file system locks.",
            "Name a local directory with state:, if this login node stays the same.",
        )


def lingering(patient: Patient) -> Iterator[Finding]:
    """logind(5): a user's services end at logout unless they linger; KillUserProcesses ends all else."""
    linger = patient.root / "var/lib/systemd/linger"
    if not (patient.root / "run/systemd/system").exists():
        yield Finding("no_systemd", Level.ADVICE, "systemd does not run here", "", "Use cron or scrontab: run --once.")
        return
    if not (linger / patient.user).exists():
        yield Finding(
            "lingering",
            Level.ADVICE,
            "your services end when you log out",
            "A daemon under systemctl --user stops with your last session.",
            "loginctl enable-linger; where the site forbids it, use the timer, scrontab or the system unit.",
        )
    if _killed_at_logout(patient):
        yield Finding(
            "kill_at_logout",
            Level.PROBLEM,
            "this machine kills all processes of a user at logout (KillUserProcesses=yes)",
            "A daemon in tmux or under nohup dies with your session.",
            "Use the system unit, a lingering user unit, or scrontab.",
        )


def _killed_at_logout(patient: Patient) -> bool:
    """logind.conf(5): what stands in a later file wins; KillExcludeUsers and KillOnlyUsers narrow it."""
    root = patient.root
    files = [root / "etc/systemd/logind.conf"]
    drop_ins = {
        path.name: path for where in ("usr/lib", "etc") for path in root.glob(f"{where}/systemd/logind.conf.d/*.conf")
    }
    settings: dict[str, str] = {}
    for file in [*files, *(drop_ins[name] for name in sorted(drop_ins))]:
        settings |= {m[1]: m[2].strip() for m in re.finditer(r"(?m)^\s*(Kill\w+)\s*=(.*)$", _read(file))}
    if settings.get("KillUserProcesses", "no").lower() not in {"yes", "true", "1", "on"}:
        return False
    only = settings.get("KillOnlyUsers", "").split()
    return patient.user not in settings.get("KillExcludeUsers", "root").split() and (not only or patient.user in only)


def login_nodes(patient: Patient) -> Iterator[Finding]:
    """A name without the number that leads to several machines, or a machine that is called like one of several."""
    host, _, domain = patient.host.partition(".")
    stem = re.sub(r"[-_]?\d+$", "", host)
    if not stem or stem == host:
        return
    several = 0
    for name in (f"{stem}.{domain}", stem) if domain else (stem,):
        lines = (patient.run("getent", "ahosts", name) or "").splitlines()
        several = several or len({line.split()[0] for line in lines if line.strip() and ":" not in line.split()[0]})
    if several > 1:
        what = f"{stem} leads to {several} machines, of which this one is {host}"
    elif re.fullmatch(r"\w*(login|head|submit|access|front)\w*", stem):
        what = f"{host} looks like one of several login nodes"
    else:
        return
    yield Finding(
        "login_nodes",
        Level.ADVICE,
        what,
        "A daemon started on another one finds the lease and refuses; a rebooted one needs it started again.",
        "Note where it runs (`chainwatch status` says it), or use scrontab, which runs anywhere.",
    )


def sendmail(patient: Patient) -> Iterator[Finding]:
    """E-mail channels need a way to send."""
    channels = patient.config.alerts.channels if patient.config else {}
    for name, channel in channels.items():
        if channel.type == "email" and channel.smtp is None:
            program = channel.sendmail or Path("/usr/sbin/sendmail")
            if shutil.which(str(program)) is None:
                yield Finding(
                    "sendmail",
                    Level.PROBLEM,
                    f"alert channel {name} needs {program}, which is not there",
                    "Its alerts reach nobody.",
                    "Give it an smtp: server.",
                )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
