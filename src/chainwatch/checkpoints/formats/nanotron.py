"""nanotron: `<step>/` with model/ (a safetensors file a tensor), optimizer/, lr_scheduler/, random/, and a JSON file.

Written in this order: config.yaml, model, optimizer, lr_scheduler, `checkpoint_metadata.json`, then a barrier; the
training loop writes random/ and `latest.txt` beside the steps. File names carry ranks and sizes
(`optimizer_pp-0-of-1_dp-1-of-2_tp-0-of-1_exp-0-of-1.pt`, `…_pp-rank-0-of-1_tp-rank-1-of-2.safetensors`).
"""

from __future__ import annotations

import itertools
import re

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer, step_of
from chainwatch.checkpoints.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Set, Tuple

MARK = "checkpoint_metadata.json"
LATEST = "latest.txt"
CONFIG = "config.yaml"
PARTS = ("model", "optimizer", "lr_scheduler", "random")
MAX_FILES = 1_000_000
_RANK = Pattern(r"(pp|dp|tp|exp|ep|cp)-(?:rank-)?(\d{1,6})-of-(\d{1,6})")


class Nanotron(Layout):
    """See the module."""

    name = "nanotron"

    def owns(self, folder: Folder) -> bool:
        if MARK in folder.files:
            return True
        parts = sum(part in folder.dirs for part in PARTS)
        return "model" in folder.dirs and (CONFIG in folder.files or "model_config.json" in folder.files) and parts >= 1

    def pointer(self, run: Folder) -> Optional[Pointer]:
        said = run.text(LATEST) if LATEST in run.files else None
        if said is None:
            return None
        digits = said.strip()
        return Pointer(LATEST, digits if digits.isdigit() and len(digits) < 19 else None, said[:100])

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        if MARK in folder.files:
            metadata = look.file(MARK).facts.get("json")
            self._metadata(look, metadata if isinstance(metadata, dict) else {}, step_of(candidate.name))
        else:
            look.missing(MARK, "the mark of a finished save")
        for name in folder.files:
            if name.endswith(".json") and name != MARK:
                look.file(name)
        for part in PARTS:
            if part in folder.dirs:
                names = list(_below(folder.sub(part), part + "/"))
                for name in names:
                    look.file(name)
                _ranks(look, names)
                if not names:
                    look.missing(part, "files")
            elif part in ("model", "optimizer") and self._wanted(look, part):
                look.missing(part, "a directory of the checkpoint")
        self._as_neighbour(look, candidate)
        self._committed(look, candidate)

    def _wanted(self, look: Look, part: str) -> bool:
        return part == "model" or any(part in other.root.dirs for other in look.neighbours)

    def _metadata(self, look: Look, metadata: Dict[str, object], step: Optional[int]) -> None:
        details = metadata.get("metas")
        said = details.get("last_train_step") if isinstance(details, dict) else None
        if isinstance(said, int) and step is not None and said != step:
            look.warn(f"{MARK} says step {said}, the name {step}")
        sizes = [f"{key} {metadata[key]}" for key in ("dp", "tp", "pp") if isinstance(metadata.get(key), int)]
        look.detail = ", ".join(sizes)

    def _as_neighbour(self, look: Look, candidate: Candidate) -> None:
        """Files of a neighbour that was written by as many ranks, and that are not here."""
        for other in look.neighbours[:1]:
            if MARK not in other.root.files:
                continue
            for part in PARTS:
                if part not in other.root.dirs or part not in candidate.root.dirs:
                    if part in other.root.dirs and part not in ("model", "optimizer"):
                        look.missing(part, f"a directory, as in {other.name}")
                    continue
                theirs = set(_below(other.root.sub(part), part + "/"))
                ours = set(_below(candidate.root.sub(part), part + "/"))
                if _sizes(theirs) == _sizes(ours):
                    for name in sorted(theirs - ours)[:100]:
                        if not any(problem.file == name for problem in look.problems):
                            look.missing(name)

    def _committed(self, look: Look, candidate: Candidate) -> None:
        pointer = look.run_pointer
        if pointer is None or pointer.target is None or look.problems:
            return
        step = step_of(candidate.name)
        if step is not None and int(pointer.target) < step:
            look.uncommitted(LATEST, f"a pointer to {candidate.name}", f"it names {pointer.target}")


def _below(folder: Folder, where: str, depth: int = 0) -> Iterator[str]:
    for name in folder.files:
        if not name.startswith(".tmp"):
            yield where + name
    if depth < 64:
        for name in folder.dirs:
            if name not in folder.links:
                yield from _below(folder.sub(name), f"{where}{name}/", depth + 1)


def _sizes(names: Set[str]) -> Set[Tuple[str, str]]:
    """The (axis, size) pairs in file names: the world that wrote them."""
    return {(axis, size) for name in names for axis, _, size in _RANK.findall(name)}


def _ranks(look: Look, names: List[str]) -> None:
    """Of each family of files that differ in ranks alone, every rank must be there.

    Model files of one tensor lie on one pipeline stage: for them only the tensor ranks must be complete.
    """
    families: Dict[str, List[Tuple[Tuple[str, int, int], ...]]] = {}
    examples: Dict[str, str] = {}
    for name in names[:MAX_FILES]:
        ranks = tuple((axis, int(rank), int(size)) for axis, rank, size in _RANK.findall(name))
        if not ranks:
            continue
        model = name.startswith("model/")

        def hide(match: "re.Match[str]", model: bool = model) -> str:
            if model and match.group(1) != "tp":
                return match.group(0)
            return f"{match.group(1)}-*-of-{match.group(3)}"

        family = _RANK.sub(hide, name)
        families.setdefault(family, []).append(tuple(each for each in ranks if not model or each[0] == "tp"))
        examples[family] = name
    for family, members in families.items():
        sizes = [size for _, _, size in members[0]]
        total = 1
        for size in sizes:
            total *= size
        if len(members) >= total or total > MAX_FILES:
            continue
        there = {tuple(rank for _, rank, _ in member) for member in members}
        for wanted in itertools.product(*(range(size) for size in sizes)):
            if wanted not in there:
                parts = ", ".join(f"{axis} {rank}" for (axis, _, _), rank in zip(members[0], wanted))
                look.missing(family, f"files of {total} ranks; {parts} is not there")
                break


LAYOUT = Nanotron()
