"""Megatron-LM and Megatron-core: `torch_dist`, the legacy layout of one directory per rank, and plain DCP.

`<run>/latest_checkpointed_iteration.txt` (a number, or `release`) is written after a barrier over all ranks, so an
iteration newer than it was never committed; it may be empty or garbage after a crash, and then says nothing.
torch_dist writes `common.pt` first, then the shards, `.metadata`, and `metadata.json` last.
"""

from __future__ import annotations

import itertools

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer
from chainwatch.checkpoints.formats.dcp import is_dcp, judge_dcp
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, List, Optional, Set, Tuple

TRACKER = "latest_checkpointed_iteration.txt"
_ITERATION = Template("iter_{}")
_RANKS = (Template("mp_rank_{}"), Template("mp_rank_{}_{}"), Template("mp_rank_{}_{}_{}"))
_RANK_FILES = ("model_optim_rng.pt", "model_rng.pt", "distrib_optim.pt", "optim.pt")


class Megatron(Layout):
    """See the module."""

    name = "megatron"

    def owns(self, folder: Folder) -> bool:
        if any(_rank(name) for name in folder.dirs):
            return True
        dist = "common.pt" in folder or "metadata.json" in folder
        return (self.named(folder.name) and (dist or is_dcp(folder))) or ("common.pt" in folder and is_dcp(folder))

    def named(self, name: str) -> bool:
        found = _ITERATION.match(name)
        return found is not None and len(found[0]) >= 7

    def pointer(self, run: Folder) -> Optional[Pointer]:
        text = run.text(TRACKER, 4096) if TRACKER in run.files else None
        if text is None:
            return None
        said = text.strip()
        if said == "release":
            return Pointer(TRACKER, "release", text)
        return Pointer(TRACKER, f"iter_{int(said):07d}" if said.isdecimal() and len(said) < 19 else None, text)

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        if any(_rank(name) for name in folder.dirs):
            _judge_ranks(folder, look)
        else:
            judge_torch_dist(folder, "", look)
        pointer = look.run_pointer
        if pointer is None or pointer.target is None or pointer.target not in candidate.run:
            return
        named = _ITERATION.match(pointer.target)
        if named and candidate.step is not None and candidate.step > int(named[0]):
            found = f"{TRACKER} still says {int(named[0])}"
            look.uncommitted(candidate.name, f"{TRACKER} to say {candidate.step}", found)


def _rank(name: str) -> Optional[Tuple[str, ...]]:
    """Tensor, pipeline and expert rank, as far as the name of a directory has them."""
    for each in _RANKS:
        found = each.match(name)
        if found:
            return found
    return None


def judge_torch_dist(folder: Folder, prefix: str, look: Look) -> None:
    """`common.pt`, shards, `.metadata`, `metadata.json`; or one zarr directory for each tensor."""
    json_there = "metadata.json" in folder
    finding = look.file(prefix + "metadata.json", kind="json") if json_there else None
    backend = finding.facts.get("json", {}) if finding is not None and finding.ok else {}
    backend = backend.get("sharded_backend") if type(backend) is dict else None
    plain = not json_there and "common.pt" not in folder and is_dcp(folder)
    if not plain:
        if not json_there:
            look.missing(prefix + "metadata.json", "the mark that all shards are written")
        if "common.pt" in folder:
            look.file(prefix + "common.pt")
        else:
            look.missing(prefix + "common.pt", "the state that all ranks share")
    if backend == "zarr" or any(".zarray" in folder.sub(name) for name in folder.dirs[:8]):
        _judge_zarr(folder, prefix, look)
    else:
        judge_dcp(folder, prefix, look)


def _judge_zarr(folder: Folder, prefix: str, look: Look) -> None:
    from chainwatch.checkpoints.formats.tensorstore import judge_zarr

    look.checksummed = False
    if not judge_zarr(look, prefix, True).grids:
        look.missing(prefix + "*/.zarray", "a zarr directory for each tensor")
    for other in look.neighbours[:1]:
        for name in sorted(set(other.root.dirs) - set(folder.dirs)):
            look.missing(prefix + name, f"a zarr directory for each tensor, as in {other.name}")


def _judge_ranks(folder: Folder, look: Look) -> None:
    """`mp_rank_TT[_PPP][_EEE]/`: the directories of every model-parallel rank, with the same files in each."""
    ranks = {name: folder.sub(name) for name in folder.dirs if _rank(name)}
    files: Set[str] = set()
    for rank in ranks.values():
        files.update(name for name in rank.files if name in _RANK_FILES)
    wanted = set(ranks)
    for other in look.neighbours[:2]:
        theirs = {name for name in other.root.dirs if _rank(name)}
        for name in theirs:
            files.update(each for each in other.root.sub(name).files if each in _RANK_FILES)
        wanted |= theirs
    if not files & {"model_optim_rng.pt", "model_rng.pt"}:
        files.add("model_optim_rng.pt")
    tensor_parallel = None
    for name, rank in ranks.items():
        for each in sorted(files):
            if each not in rank:
                look.missing(f"{name}/{each}", "a file for every rank")
                continue
            facts = look.file(f"{name}/{each}").facts
            found = facts.get("tensor_model_parallel_size")
            if type(found) is int and 0 < found < 100_000:
                tensor_parallel = max(tensor_parallel or 0, found)
            iteration = facts.get("iteration")
            if type(iteration) is int and look.step is not None and iteration != look.step and iteration > 0:
                look.problem(f"{name}/{each}", "step", f"iteration {look.step}", f"iteration {iteration}")
    for name in sorted((wanted | _grid(ranks, tensor_parallel)) - set(ranks)):
        look.missing(name, "a directory for every rank")
    look.detail = f"{len(ranks)} model-parallel ranks"


def _grid(names: Dict[str, Folder], tensor_parallel: Optional[int]) -> Set[str]:
    """All ranks of the smallest grid that holds those that are there."""
    fields: List[Tuple[str, ...]] = []
    for name in names:
        match = _rank(name)
        if match:
            fields.append(match)
    found: Set[str] = set()
    for count in {len(each) for each in fields}:
        same = [each for each in fields if len(each) == count]
        axes = [range(max(int(each[axis]) for each in same) + 1) for axis in range(count)]
        if tensor_parallel is not None:
            axes[0] = range(max(tensor_parallel, len(axes[0])))
        widths = [len(same[0][axis]) for axis in range(count)]
        total = 1
        for axis in axes:
            total *= len(axis)
        if total > 1_000_000:
            continue
        for index in itertools.product(*axes):
            found.add("mp_rank_" + "_".join(f"{value:0{width}d}" for value, width in zip(index, widths)))
    return found


LAYOUT = Megatron()
