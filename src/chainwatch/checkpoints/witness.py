"""Neighbouring steps of the same run as a witness: what differs from all of them is said.

A difference proves nothing (a run may be resumed on other ranks, or freeze a part of its model), so it is a warning; a
layout that knows what a missing file means has said so as a problem already.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.base import human, printable
from chainwatch.checkpoints.formats.base import Look

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import FrozenSet, List

    from chainwatch.checkpoints.formats.base import Candidate

LARGEST = 32
"""Files that are compared, the largest first."""
LEAST = 65_536
"""Bytes below which a size is not worth a word."""
SHARE = 0.1
"""By how much of it a size must differ from those of all neighbours, which agree within a tenth of that."""
NEIGHBOURS = 3

_DIGITS = {ord(digit): None for digit in "0123456789"}


def differences(look: Look) -> List[str]:
    """Sentences on what differs from all of at least two neighbours."""
    neighbours = list(look.neighbours[:NEIGHBOURS])
    if len(neighbours) < 2:
        return []
    kinds = [_kinds(other) for other in neighbours]
    own = _kinds(look.candidate)
    said = [f"there is no {printable(kind)}, as all its neighbours have" for kind in sorted(_common(kinds) - own)]
    if any(other != own for other in kinds):
        return said
    sizes = sorted(((info.st_size, name) for name, info in look.stats.items() if info.st_size >= LEAST), reverse=True)
    for size, name in sizes[:LARGEST]:
        theirs = [info.st_size for _, info in look.neighbour_files(name)][:NEIGHBOURS]
        if len(theirs) < 2 or max(theirs) - min(theirs) > SHARE / 10 * max(theirs):
            continue
        if abs(size - theirs[0]) > SHARE * max(size, theirs[0]):
            said.append(f"{printable(name)} has {human(size)}, and {human(theirs[0])} in all its neighbours")
    return said


def _kinds(candidate: Candidate) -> FrozenSet[str]:
    """Names of its files without their numbers: ranks and shards may be other ones, kinds of files may not."""
    if candidate.folder is None:
        return frozenset()
    names = (*candidate.folder.files, *candidate.folder.dirs)
    return frozenset(
        name.translate(_DIGITS) for name in names if "tmp" not in name and not name.endswith((".md", ".py"))
    )


def _common(kinds: List[FrozenSet[str]]) -> FrozenSet[str]:
    return kinds[0].intersection(*kinds[1:])
