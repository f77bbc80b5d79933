"""Quotas: a file system with room is full for whoever has used up a share of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.machine import places
from chainwatch.evidence.quota import parse
from chainwatch.store.filesystem import filesystem_type

_FULL, _NEAR = 0.95, 0.85


def quotas(patient: Patient) -> Iterator[Finding]:
    """quota(1), and lfs-quota(1) where a place is on Lustre; each limit once."""
    texts = [patient.run("quota", "-w", "-p", "-u", patient.user)]
    mountinfo = patient.root / "proc/self/mountinfo"
    for place in {*places(patient.config).values(), patient.home} if patient.config else ():
        there = next((p for p in (place, *place.parents) if p.exists()), Path("/"))
        if filesystem_type(there, mountinfo) == "lustre":
            texts.append(patient.run("lfs", "quota", "-q", "-u", patient.user, str(there)))
    found = {(q.what, q.where): q for text in texts for q in parse(text or "")}
    for quota in found.values():
        share = quota.used / quota.limit
        amount = f"{quota.limit / 1e9:.1f} GB" if quota.what == "space" else f"{quota.limit:,.0f} files"
        said = f"{share:.0%} of your quota of {amount} on {quota.where} is used"
        if share < _NEAR:
            yield Finding("quota", Level.OK, said)
            continue
        yield Finding(
            "quota",
            Level.PROBLEM if share >= _FULL else Level.ADVICE,
            said,
            "A save that meets its quota leaves a damaged checkpoint, and the run fails at each save from then on.",
            "Delete old checkpoints, keep fewer of them, or ask for more.",
        )
