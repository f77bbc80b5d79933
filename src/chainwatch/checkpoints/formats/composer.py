"""MosaicML Composer: `ep<E>-ba<B>-rank<R>.pt`, one file of each rank, and links `latest-rank<R>.pt`.

A checkpoint of several ranks is named by Composer's own template, `ep0-ba100-rank{rank}.pt`, which is what its
`load_path` takes. Sharded checkpoints are directories with `.metadata`, which the DCP layout knows.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer
from chainwatch.checkpoints.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional

_FILE = Pattern(r"^(ep(\d+)-ba(\d+)-rank)(\d+)(\.pt(?:\.tar|\.gz|\.bz2|\.lzma|\.tar\.gz)?)$")
_LATEST = Pattern(r"^latest-rank0(\.pt.*)?$")
TEMPLATE = "{rank}"


class Composer(Layout):
    """See the module."""

    name = "composer"

    def named(self, name: str) -> bool:
        return _FILE.match(name.replace(TEMPLATE, "0")) is not None

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for title, ranks in _groups(run).items():
            alone = ranks == [0] and not _witnessed(run, title)
            name = title.replace(TEMPLATE, "0") if alone else title
            yield self.candidate(run, name, None)

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        match = _FILE.match(name.replace(TEMPLATE, "0"))
        return Candidate(self, run, name, int(match.group(3)) if match else None, folder)

    def pointer(self, run: Folder) -> Optional[Pointer]:
        for name in run.links:
            if _LATEST.match(name):
                try:
                    target = os.path.basename(os.readlink(os.path.join(run.path, name)))
                except OSError:
                    return None
                match = _FILE.match(target)
                if match is None:
                    return None
                title = f"{match.group(1)}{TEMPLATE}{match.group(5)}"
                alone = _groups(run).get(title, [0]) == [0] and not _witnessed(run, title)
                return Pointer(name, target if alone else title, target)
        return None

    def judge(self, candidate: Candidate, look: Look) -> None:
        match = _FILE.match(candidate.name.replace(TEMPLATE, "0"))
        if match is None:
            look.file(candidate.name)
            return
        title = f"{match.group(1)}{TEMPLATE}{match.group(5)}"
        ranks = _groups(candidate.run).get(title, [])
        world = max((*ranks, _witnessed(candidate.run, title), 0)) + 1
        for rank in range(min(world, 1_000_000)):
            name = title.replace(TEMPLATE, str(rank))
            if rank in ranks:
                look.file(name, "tar" if not name.endswith(".pt") else "torch_zip")
            else:
                look.missing(name, f"one file of each of {world} ranks")


def _groups(run: Folder) -> Dict[str, List[int]]:
    """Ranks that are there, by the name of their checkpoint as a template."""
    groups: Dict[str, List[int]] = {}
    for name in run.files:
        match = _FILE.match(name)
        if match is not None:
            groups.setdefault(f"{match.group(1)}{TEMPLATE}{match.group(5)}", []).append(int(match.group(4)))
    for ranks in groups.values():
        ranks.sort()
    return groups


def _witnessed(run: Folder, title: str) -> int:
    """The highest rank that the nearest other checkpoints have: of two, the lower, since worlds also shrink."""
    match = _FILE.match(title.replace(TEMPLATE, "0"))
    step = int(match.group(3)) if match else 0
    others = []
    for other, ranks in _groups(run).items():
        found = _FILE.match(other.replace(TEMPLATE, "0"))
        if other != title and found is not None:
            others.append((abs(int(found.group(3)) - step), ranks[-1]))
    others.sort()
    return min((rank for _, rank in others[:2]), default=0)


LAYOUT = Composer()
