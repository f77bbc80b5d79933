"""Quotas: a file system with room is full for whoever has used up a share of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.machine import places
from chainwatch.store.filesystem import filesystem_type

_FULL, _NEAR = 0.95, 0.85


@dataclass(frozen=True, slots=True)
class Quota:
    """One row of quota(1): what is used, and the lower of the two limits that there are."""

    what: str
    """`space` or `files`."""
    where: str
    used: float
    limit: float


def parse(text: str) -> list[Quota]:
    """Rows of `quota -w -p` and of `lfs quota -q`: file system, blocks, quota, limit, grace, files, quota, limit, grace.

    A `*` stands behind what is beyond its limit; 0 is no limit. Names that fill a line are joined with the next one.
    """
    out: list[Quota] = []
    name = ""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1:
            name = words[0]
            continue
        if not words or not _number(words[0 if len(words) < 9 else 1]):
            name = ""
            continue
        where, *numbers = words if len(words) >= 9 else [name, *words]
        if len(numbers) < 7 or not where:
            continue
        for what, at, size in (("space", 0, 1024.0), ("files", 4, 1.0)):
            used, soft, hard = (float(_number(n) or 0) * size for n in numbers[at : at + 3])
            limits = [limit for limit in (soft, hard) if limit > 0]
            if limits:
                out.append(Quota(what, where, used, min(limits)))
        name = ""
    return out


def _number(word: str) -> str | None:
    match = re.fullmatch(r"\[?(\d+)\]?\*?", word)
    return match[1] if match else None


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
