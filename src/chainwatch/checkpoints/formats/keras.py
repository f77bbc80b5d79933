"""Keras: `.keras` and `.weights.h5` files, written in place; the directory of the BackupAndRestore callback.

Weights larger than `max_shard_size` are `NAME_00000.weights.h5` … with an index `NAME.weights.json`, which is written
last; seen on files by Keras 3.15.
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look
from chainwatch.checkpoints.formats.tensorstore import load_json
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterable, Optional, Set

BACKUP = "latest.weights.h5"
PROGRESS = "training_metadata.json"
ENDINGS = (".keras", ".weights.h5")
INDEX = ".weights.json"
_SHARD = Template("_{}.weights.h5")


class Keras(Layout):
    """See the module."""

    name = "keras"

    def owns(self, folder: Folder) -> bool:
        return PROGRESS in folder.files

    def named(self, name: str) -> bool:
        return name.endswith(ENDINGS)

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        return super().candidate(run, name, None if folder is not None and not self.owns(folder) else folder)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        sharded = any(name.endswith(INDEX) for name in run.files)
        indexes = {name for name in run.files if name.endswith(INDEX)}
        for name in run.files:
            whole = shard_stem(name) if sharded else None
            if whole is not None:
                indexes.add(whole + INDEX)  # shards of a save that never wrote its index
            elif name.endswith(ENDINGS):
                yield super().candidate(run, name, None)
        for name in sorted(indexes):
            yield super().candidate(run, name, None)

    def judge(self, candidate: Candidate, look: Look) -> None:
        if candidate.folder is None:
            if candidate.name.endswith(INDEX):
                self._judge_shards(candidate, look)
            else:
                look.file(candidate.name)
            return
        look.step = None
        look.file(BACKUP)
        progress = load_json(look, PROGRESS)
        epoch = progress.get("epoch") if isinstance(progress, dict) else None
        if isinstance(epoch, int):
            look.step = epoch
        elif progress is not None:
            look.problem(PROGRESS, "structure", "the epoch to go on with", "none")

    def _judge_shards(self, candidate: Candidate, look: Look) -> None:
        index = candidate.name
        stem = index[: -len(INDEX)]
        present = {name for name in candidate.run.files if shard_stem(name) == stem}
        if index not in candidate.run:
            look.missing(index, "the index, which is written after the shards")
        value = load_json(look, index) if index in candidate.run else None
        weights = value.get("weight_map") if isinstance(value, dict) else None
        named = _shards(weights)
        if value is not None and not named:
            look.problem(index, "structure", "a weight_map with names of shards", "none")
        for name in sorted(named | present):
            if name in candidate.run:
                look.file(name)
            else:
                look.missing(name, f"a shard of {index}")


def shard_stem(name: str) -> Optional[str]:
    """`m-3` of `m-3_00001.weights.h5`; None for what is no shard."""
    stem, _, rest = name.rpartition("_")
    match = _SHARD.match(f"_{rest}")
    return stem if stem and match and len(match[0]) == 5 else None


def _shards(weights: object) -> Set[str]:
    """The shards that an index names; none where it is not what it must be."""
    found: Set[str] = set()
    for names in weights.values() if isinstance(weights, dict) else ():
        if not isinstance(names, list) or not all(isinstance(name, str) and "/" not in name for name in names):
            return set()
        found.update(names)
    return found


LAYOUT = Keras()
