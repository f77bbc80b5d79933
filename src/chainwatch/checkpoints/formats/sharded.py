"""Models in numbered shards with an index: `model-00001-of-00003.safetensors` and `model.safetensors.index.json`."""

from __future__ import annotations

from chainwatch.checkpoints.files import Finding
from chainwatch.checkpoints.files.base import grouped, printable
from chainwatch.checkpoints.formats.base import Folder, Look
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

ENDINGS = ("safetensors", "bin")


class Shard(NamedTuple):
    """The name of a shard, taken apart: `model`, 1, 3, `safetensors`."""

    stem: str
    number: int
    total: int
    ending: str


def shard_of(name: str) -> Optional[Shard]:
    """`model-00001-of-00003.safetensors`, or None."""
    start, _, ending = name.rpartition(".")
    if ending not in ENDINGS or len(start) < 16 or start[-9:-5] != "-of-" or start[-15] != "-":
        return None
    number, total = start[-14:-9], start[-5:]
    return Shard(start[:-15], int(number), int(total), ending) if number.isdigit() and total.isdigit() else None


def shard_sets(parts: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Of shards (number, total) those that are not there, counting from 1 to the largest total."""
    have = set(parts)
    total = max((total for _, total in have), default=0)
    return [(number, total) for number in range(1, min(total, 100_000) + 1) if (number, total) not in have]


def judge_shards(folder: Folder, prefix: str, look: Look) -> Set[str]:
    """Numbered shards without an index: the index was to be written after them. Returns the shards' names."""
    groups: Dict[Tuple[str, str], Set[Tuple[int, int]]] = {}
    for name in folder.files:
        match = shard_of(name)
        if match:
            groups.setdefault((match.stem, match.ending), set()).add((match.number, match.total))
    found: Set[str] = set()
    for (stem, ending), parts in groups.items():
        for number, total in shard_sets(parts):
            look.missing(f"{prefix}{stem}-{number:05d}-of-{total:05d}.{ending}", f"{total} shards")
        look.missing(f"{prefix}{stem}.{ending}.index.json", "the index, which is written after the shards")
        for number, total in sorted(parts):
            name = f"{stem}-{number:05d}-of-{total:05d}.{ending}"
            look.file(prefix + name)
            found.add(name)
    return found


def judge_index(folder: Folder, index: str, prefix: str, look: Look) -> Set[str]:
    """An index and the shards that it names: each there, and each with the tensors that the index puts into it."""
    finding = look.file(prefix + index, kind="json")
    value = finding.facts.get("json") if finding.ok else None
    if not finding.ok:
        for name in folder.files:
            if shard_of(name):
                look.file(prefix + name)
        return set()
    expect_newline(prefix + index, finding, look)
    tensors = value.get("weight_map") if type(value) is dict else None
    if type(tensors) is not dict or not all(type(name) is str for name in tensors.values()):
        if value is not None:
            look.problem(prefix + index, "structure", "a weight_map", "none")
        return set()
    shards: Dict[str, List[str]] = {}
    for tensor, name in tensors.items():
        shards.setdefault(name, []).append(tensor)
    totals = {match.total for match in map(shard_of, shards) if match}
    if len(totals) > 1:
        shown = " and ".join(str(total) for total in sorted(totals))
        look.problem(prefix + index, "mixed", "shards of one split", f"it names shards of {shown}")
    for name, wanted in sorted(shards.items()):
        match = shard_of(name)
        if "/" in name or "\0" in name or (match and not 0 < match.number <= match.total):
            look.problem(prefix + index, "structure", "names of shards beside it", printable(name))
        elif name not in folder:
            if len(totals) <= 1:
                look.missing(prefix + name, f"{len(wanted)} tensors of {index}")
        else:
            facts = look.file(prefix + name).facts
            _compare(prefix + name, wanted, facts, index, look)
    for total in totals if len(totals) == 1 else ():
        parts = [(match.number, match.total) for match in map(shard_of, shards) if match]
        for number, _ in shard_sets(parts):
            look.warn(f"{index} names no tensor of shard {number} of {total}")
    return set(shards)


WITH_NEWLINE = ("config.json", "trainer_state.json", "model.safetensors.index.json", "pytorch_model.bin.index.json")
"""transformers ends these in a newline. PEFT's adapter_config.json has none."""


def expect_newline(name: str, finding: Finding, look: Look) -> None:
    """A JSON file without the newline that transformers ends it in, or that its whole neighbours have: its last byte is
    cut."""
    if finding.facts.get("ends_in_newline", True):
        return
    ended = "training_args.bin" in look.candidate.root and name in WITH_NEWLINE
    for other, info in look.neighbour_files(name):
        text = other.root.head(name, info.st_size) if info.st_size < 1 << 20 else None
        if text is not None and _is_json(text):
            ended = text.endswith(b"\n")
            break
    if ended:
        look.problem(name, "truncated", "a newline at the end", "the last byte is cut")


def _is_json(text: bytes) -> bool:
    import json

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _compare(name: str, wanted: List[str], facts: Dict[str, Any], index: str, look: Look) -> None:
    have = facts.get("names")
    if have is None:
        return
    absent = [tensor for tensor in wanted if tensor not in have]
    if absent:
        found = f"{grouped(len(absent))} of them are not in it, {printable(absent[0])} is one"
        look.problem(name, "mixed", f"the {grouped(len(wanted))} tensors that {index} puts into it", found)
