"""torch distributed checkpoints (DCP), also as TorchTitan and the Hugging Face storage writer lay them out.

`<step>/{.metadata, __<rank>_<i>.distcp}`: all shards are written and synced, then the coordinator renames `.metadata`
into place. So `.metadata` says that every shard was written, and it says of each how long it must be. A directory that
is written over keeps its old `.metadata` until the end. Nothing in a shard says of which step it is, so a shard of
another step with the same layout cannot be seen without a seal.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.base import grouped
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look
from chainwatch.checkpoints.formats.sharded import judge_index, shard_sets
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Set, Tuple

_HF_SHARD = Template("shard-{}-model-{}-of-{}.safetensors")
_NAMED = Template("step-{}")
SHARDED = "sharded"
OVERWRITTEN = 120.0
"""Seconds by which a shard may be newer than `.metadata` (a copy sets times as it goes)."""


class DCP(Layout):
    """See the module."""

    name = "dcp"

    def owns(self, folder: Folder) -> bool:
        return is_dcp(folder) or any(_HF_SHARD.match(name) for name in folder.files) or _is_consolidated(folder)

    def named(self, name: str) -> bool:
        return _NAMED.match(name) is not None

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        if is_dcp(folder):
            judge_dcp(folder, "", look)
        elif any(_HF_SHARD.match(name) for name in folder.files):
            _judge_hf_shards(folder, look)
        elif "model.safetensors.index.json" in folder or _is_consolidated(folder):
            _judge_consolidated(folder, look)
        else:
            look.missing(".metadata", "the index of all shards, which is written last")


def is_dcp(folder: Folder) -> bool:
    """True where a directory has files of a distributed checkpoint directly in it."""
    return ".metadata" in folder or any(name.endswith(".distcp") for name in folder.files)


def _is_consolidated(folder: Folder) -> bool:
    """True where the ranks' shards lie in `sharded/`, from which whole files are put together beside it."""
    return SHARDED in folder.dirs and any(_HF_SHARD.match(name) for name in folder.sub(SHARDED).files)


def _judge_consolidated(folder: Folder, look: Look) -> None:
    """The whole files and their index, which is written last; the shards were only needed to make them."""
    look.checksummed = False
    index = "model.safetensors.index.json"
    if index in folder:
        judge_index(folder, index, "", look)
    else:
        look.missing(index, "the index of the whole files, which is written last")
    for name in folder.sub(SHARDED).files if SHARDED in folder.dirs else ():
        if _HF_SHARD.match(name):
            look.optional(f"{SHARDED}/{name}")


def judge_dcp(folder: Folder, prefix: str, look: Look, expected: str = "") -> None:
    """Judge one `.metadata` and its shards; `prefix` is the way from the checkpoint to `folder`."""
    look.checksummed = False  # nothing ties a shard to its step
    if ".metadata" not in folder:
        look.missing(prefix + ".metadata", expected or "the index of all shards, which is written last")
        return
    finding = look.file(prefix + ".metadata", kind="dcp_metadata")
    if not finding.ok:
        return
    extents: Dict[str, List[int]] = finding.facts["extents"]
    for gap in finding.facts["gaps"]:
        look.problem(prefix + ".metadata", "structure", "every tensor to be whole", gap)
    newest = 0.0
    for name, (end, items) in sorted(extents.items()):
        if not _inside(name):
            look.problem(prefix + ".metadata", "structure", "names of files beside it", repr(name)[:80])
            continue
        info = folder.stat(name)
        if info is None:
            if name in folder:
                look.file(prefix + name)  # a link to nothing
            else:
                look.missing(prefix + name, f"{grouped(end)} bytes, as .metadata says")
            continue
        newest = max(newest, info.st_mtime)
        before = len(look.problems)
        shard = look.file(prefix + name, expected=f"{grouped(end)} bytes, as .metadata says")
        if len(look.problems) > before:
            continue
        if shard.kind == "safetensors":  # its own header says how long it is; the lengths in .metadata are not its
            if len(shard.facts["names"]) != items:
                found = f"{grouped(len(shard.facts['names']))} tensors"
                look.problem(prefix + name, "mixed", f"{grouped(items)} tensors, as .metadata says", found)
        elif info.st_size != end:
            code = "truncated" if info.st_size < end else "mixed"
            wanted = f"{grouped(end)} bytes, as .metadata says"
            look.problem(prefix + name, code, wanted, f"{grouped(info.st_size)} bytes")
        elif (finding.facts["plain"] or finding.facts["zstd"]) and shard.kind == "raw":
            how = "that torch saved" if finding.facts["plain"] else "that zstd compressed"
            look.problem(prefix + name, "structure", f"{grouped(items)} items {how}", "other bytes")
        elif finding.facts["plain"] and shard.kind == "distcp" and shard.facts["items"] != items:
            wanted = f"{grouped(items)} items, as .metadata says"
            look.problem(prefix + name, "mixed", wanted, f"{grouped(shard.facts['items'])} items")
    look.checksummed = False
    own = folder.stat(".metadata")
    if own is not None and newest > own.st_mtime + OVERWRITTEN:
        look.warn(
            f"{prefix}.metadata is {newest - own.st_mtime:,.0f} s older than the newest shard: a later save may have "
            "begun to write over this one"
        )
    look.detail = f"{len(extents)} shards as .metadata has them"


def _inside(name: str) -> bool:
    return name == name.strip("/") and name not in ("", ".", "..") and ".." not in name.split("/") and "\0" not in name


def _judge_hf_shards(folder: Folder, look: Look) -> None:
    """`shard-<rank>-model-<i>-of-<n>.safetensors` of every rank; there is no index of them."""
    look.checksummed = False
    names = [name for name in folder.files if _HF_SHARD.match(name)]
    for wanted in _absent(names):
        look.missing(wanted, "the shards of every rank")
    for other in look.neighbours[:2]:
        theirs = [name for name in other.root.files if _HF_SHARD.match(name)]
        if _ranks(theirs) > _ranks(names):
            for name in sorted(set(theirs) - set(names)):
                look.missing(name, f"the shards of every rank, as in {other.name}")
            break
    boxes: Dict[str, List[Tuple[List[int], List[int]]]] = {}
    for name in names:
        facts = look.file(name).facts
        _collect(facts, boxes)
    for tensor, parts in boxes.items():
        gap = _gap(parts)
        if gap:
            look.problem(names[0], "mixed", f"tensor {tensor} to be whole", gap)
    if "model.safetensors.index.json" in folder:
        judge_index(folder, "model.safetensors.index.json", "", look)
    look.detail = f"{_ranks(names)} ranks"


def _ranks(names: Iterable[str]) -> int:
    found: Set[str] = set()
    for name in names:
        match = _HF_SHARD.match(name)
        if match:
            found.add(match[0])
    return len(found)


def _absent(names: List[str]) -> List[str]:
    """Ranks between the first and the last, and files between 1 and n of each rank, that are not there."""
    ranks: Dict[int, Set[Tuple[int, int]]] = {}
    for name in names:
        match = _HF_SHARD.match(name)
        if match:
            ranks.setdefault(int(match[0]), set()).add((int(match[1]), int(match[2])))
    absent = [
        f"shard-{rank:05d}-model-00001-of-00001.safetensors" for rank in range(1, max(ranks)) if rank not in ranks
    ]
    for rank, parts in ranks.items():
        for part in shard_sets(parts):
            absent.append(f"shard-{rank:05d}-model-{part[0]:05d}-of-{part[1]:05d}.safetensors")
    return absent


def _collect(facts: Dict[str, Any], boxes: Dict[str, List[Tuple[List[int], List[int]]]]) -> None:
    import json

    try:
        sharding = json.loads(facts.get("metadata", {}).get("DCP_SHARDING_INFO", "{}"))
    except (ValueError, TypeError, RecursionError):
        return
    if type(sharding) is not dict:
        return
    for tensor, (shape, _, _) in facts.get("names", {}).items():
        entry = sharding.get(tensor)
        offsets = entry.get("saved_offsets") if type(entry) is dict else None
        if type(offsets) is list and len(offsets) == len(shape) and all(type(one) is int for one in offsets):
            boxes.setdefault(tensor, []).append((offsets, shape))


def _gap(parts: List[Tuple[List[int], List[int]]]) -> str:
    """What is missing between the first element and the last that any part has; empty where nothing is."""
    ranks = {len(offsets) for offsets, _ in parts}
    if len(ranks) != 1:
        return "shards of different dimensions"
    whole, sum_of_parts = 1, 0
    for axis in range(ranks.pop()):
        whole *= max(offsets[axis] + shape[axis] for offsets, shape in parts)
    distinct = {(tuple(offsets), tuple(shape)) for offsets, shape in parts}
    for _, shape in distinct:
        volume = 1
        for dim in shape:
            volume *= dim
        sum_of_parts += volume
    return f"its shards hold {grouped(sum_of_parts)} of {grouped(whole)} elements" if sum_of_parts < whole else ""


LAYOUT = DCP()
