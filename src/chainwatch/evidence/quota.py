"""What quota(1) and lfs-quota(1) say."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """One row of quota(1): what is used, and the lower of the two limits that there are."""

    what: str
    """`space` (bytes) or `files`."""
    where: str
    used: int
    limit: int


def parse(text: str) -> list[Quota]:
    """Rows of `quota -w -p` and of `lfs quota -q`: file system, blocks, quota, limit, grace, files, quota, limit, grace.

    A `*` stands behind what is beyond its limit; 0 is no limit, and such a row is left out. The lower limit counts, since
    saves fail soon after it. Names that fill a line are joined with the next one.
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
        for what, at, size in (("space", 0, 1024), ("files", 4, 1)):
            used, soft, hard = (int(_number(n) or 0) * size for n in numbers[at : at + 3])
            limits = [limit for limit in (soft, hard) if limit > 0]
            if limits:
                out.append(Quota(what, where, used, min(limits)))
        name = ""
    return out


def _number(word: str) -> str | None:
    match = re.fullmatch(r"\[?(\d+)\]?\*?", word)
    return match[1] if match else None


__all__ = ["Quota", "parse"]
