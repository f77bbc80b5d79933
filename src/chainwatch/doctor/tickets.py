"""Kerberos and AFS: what needs a ticket is gone when it expires, for a daemon that runs for months."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.machine import places
from chainwatch.model import mounts
from chainwatch.model.durations import show_duration

_AFS = frozenset({"afs", "auristorfs"})
_MOMENT = r"(\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d:\d\d|\w{3}\s+\d+ \d\d:\d\d:\d\d \d{4})"
_FORMATS = ("%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S", "%b %d %H:%M:%S %Y")


def expiry(text: str) -> tuple[datetime | None, datetime | None]:
    """When the ticket of `klist` (MIT or Heimdal, C locale, UTC) ends, and until when it may be renewed."""
    found = re.search(rf"{_MOMENT}\s+{_MOMENT}\s+krbtgt/\S+(?:\s+renew until {_MOMENT})?", text)
    if not found:
        return None, None
    return _moment(found[2]), _moment(found[3]) if found[3] else None


def _moment(text: str) -> datetime | None:
    for form in _FORMATS:
        try:
            return datetime.strptime(" ".join(text.split()), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def mount_of(path: Path, mountinfo: str) -> tuple[str, str]:
    """Kind and options of the file system that a path is on (proc_pid_mountinfo(5)): the longest mount point above it."""
    return mounts.deepest(str(path), mounts.mountinfo(mountinfo)) or ("", "")


def tickets(patient: Patient) -> Iterator[Finding]:
    """Which places need a ticket, and how long the one at hand lasts."""
    try:
        mountinfo = (patient.root / "proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        return
    where = {"home directory": patient.home, **(places(patient.config) if patient.config else {})}
    held = {what: mount_of(path, mountinfo) for what, path in where.items()}
    kerberos = [what for what, (kind, options) in held.items() if kind.startswith("nfs") and "sec=krb5" in options]
    afs = [what for what, (kind, _) in held.items() if kind in _AFS]
    if kerberos:
        yield _kerberos(patient, kerberos)
    if afs:
        text = patient.run("tokens") or ""
        valid = "tokens for" in text and "[>>" not in text
        until = re.search(r"\[Expires ([^\]]+)\]", text)
        lasts = "and it is valid" if valid else "and there is no valid one"
        lasts = f"which expires {until[1]}" if valid and until else lasts
        yield Finding(
            "afs",
            Level.ADVICE if valid else Level.PROBLEM,
            f"{_listed(afs)} on AFS and need a token, "
            + (
                f"which expires {until[1]}"
                if valid and until
                else "and it is valid"
                if valid
                else "and there is no valid one"
            ),
            "When it expires the daemon loses them, and a token does not renew itself.",
            "Keep the state elsewhere (state:), or run the daemon under `k5start -t` with a keytab.",
        )


def _kerberos(patient: Patient, places: list[str]) -> Finding:
    text = patient.run("klist")
    ends, renewable = expiry(text or "")
    left = None if ends is None else ends - patient.now
    valid = left is not None and left > timedelta(0)
    said = f"{_listed(places)} on NFS with Kerberos and need a ticket"
    if text is None:
        said += ", and klist is not there to look at it"
    elif not valid or left is None:
        said += ", and there is no valid one"
    else:
        said += f", which expires in {show_duration(timedelta(minutes=left // timedelta(minutes=1)))}"
        said += f" and can be renewed until {renewable:%Y-%m-%d %H:%M} UTC" if renewable else " and cannot be renewed"
    return Finding(
        "kerberos",
        Level.ADVICE if valid and left is not None and left > timedelta(hours=24) else Level.PROBLEM,
        said,
        "When the ticket expires the daemon loses its scripts, its configuration and its state.",
        "Keep the state elsewhere (state:), renew it from cron (`kinit -R`), or run the daemon under k5start with a keytab.",
    )


def _listed(places: list[str]) -> str:
    return f"{', '.join(places)} {'is' if len(places) == 1 else 'are'}"
