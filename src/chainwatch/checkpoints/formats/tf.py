"""TensorFlow checkpoints: the prefix `ckpt-<n>` of an `.index` and its data shards, with the pointer file `checkpoint`.

Shards are renamed to their final names first, the `.index` last, then `checkpoint` is rewritten; while a save goes on
its shards lie in `<prefix>_temp/`. Older savers and Keras' `save_weights` leave the same files.
"""

from __future__ import annotations

from chainwatch.checkpoints.files import tf_index
from chainwatch.checkpoints.files.base import Broken, Fault, Reader, grouped, printable
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer, step_of
from chainwatch.checkpoints.patterns import MULTILINE, Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Sequence, Tuple

STATE = "checkpoint"
_SHARD = Pattern(r"^(.+)\.data-(\d{5})-of-(\d{5})$")
_POINTS = Pattern(r'^(model_checkpoint_path|all_model_checkpoint_paths): "((?:[^"\\]|\\.)*)"\s*$', MULTILINE)
_DIGITS = str.maketrans("", "", "0123456789")
TAIL = 16
"""A quick check verifies the last tensor of a shard whose last bytes are zeros: it may be a tail that was lost."""
HOSTILE = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, MemoryError, RecursionError)


class TensorFlow(Layout):
    """See the module."""

    name = "tf"

    def inside(self, run: Folder) -> Iterable[Candidate]:
        prefixes = {}
        for name in run.files:
            match = _SHARD.match(name)
            if match is not None:
                prefixes[match.group(1)] = True
            elif name.endswith(".index"):
                prefixes[name[: -len(".index")]] = True
        for name in run.dirs:
            if name.endswith("_temp") and any(part.startswith("part-") for part in run.sub(name).files):
                prefixes.setdefault(name[: -len("_temp")], True)
        for prefix in sorted(prefixes):
            if prefix:
                yield Candidate(self, run, prefix, step_of(prefix))

    def pointer(self, run: Folder) -> Optional[Pointer]:
        if STATE not in run.files:
            return None
        said = run.text(STATE)
        if said is None or "_checkpoint_path" not in said:
            return None
        latest, _ = _state(said)
        return Pointer(STATE, latest, said.strip()[:200])

    def judge(self, candidate: Candidate, look: Look) -> None:
        judge_bundle(look, candidate.name)
        temporary = candidate.run.sub(candidate.name + "_temp") if candidate.name + "_temp" in candidate.run else None
        for name in temporary.files[:1000] if temporary is not None else ():
            info = candidate.run.stat(f"{candidate.name}_temp/{name}")
            if info is not None:
                look.stats[f"{candidate.name}_temp/{name}"] = info
        if not look.problems:
            self._recorded(candidate, look)

    def _recorded(self, candidate: Candidate, look: Look) -> None:
        """A newer save that the pointer does not know was never committed by its manager."""
        said = candidate.run.text(STATE) if STATE in candidate.run.files else None
        if said is None or look.run_pointer is None:
            return
        latest, known = _state(said)
        if latest is None or candidate.name in known or latest.translate(_DIGITS) != candidate.name.translate(_DIGITS):
            return
        pointed = step_of(latest)
        if pointed is not None and candidate.step is not None and pointed < candidate.step:
            look.uncommitted(STATE, f"a pointer to {candidate.name}", f"it names {printable(latest)}")


def _state(said: str) -> Tuple[Optional[str], List[str]]:
    """(latest, all) prefixes that a `checkpoint` file names; absolute ones by their last part, since runs are moved."""
    latest: Optional[str] = None
    known: List[str] = []
    for key, value in _POINTS.findall(said):
        name = value.rstrip("/").rpartition("/")[2]
        if not name:
            continue
        known.append(name)
        if key == "model_checkpoint_path":
            latest = name
    return latest, known


def judge_bundle(look: Look, prefix: str) -> None:
    """One bundle: its index, and the shards that the index calls for."""
    root = look.candidate.root
    slash = prefix.rpartition("/")
    folder = root.sub(slash[0]) if slash[0] else root
    index = f"{prefix}.index"
    if slash[2] + ".index" not in folder:
        look.missing(index, "the index, which is renamed last")
        _count_shards(look, folder, slash[2])
        return
    finding = look.file(index, "tf_index")
    shards = finding.facts.get("shards")
    extents = finding.facts.get("extents")
    if not finding.ok or not isinstance(shards, int) or not isinstance(extents, (list, tuple)):
        return
    names = [f"{prefix}.data-{shard:05d}-of-{shards:05d}" for shard in range(min(shards, 100_000))]
    look.once("tf", (index, *names), lambda: _judge_data(look, index, names, extents))


def _judge_data(look: Look, index: str, names: Sequence[str], extents: Sequence[int]) -> None:
    for shard, name in enumerate(names):
        reader = look.opened(name)
        if reader is None:
            continue
        with reader:
            extent = int(extents[shard])
            if reader.size < extent:
                code = "truncated" if reader.size else "empty"
                found = f"{grouped(reader.size)} bytes"
                look.problem(name, code, f"{grouped(extent)} bytes, as {index} says", found)
            elif look.deep:
                _verify(look, index, name, shard, reader, 0, extent)
            elif extent >= TAIL:
                for place in sorted({0, extent - TAIL}):  # where a page was lost, its checksums tell
                    if not any(reader.read(place, TAIL)):
                        _verify(look, index, name, shard, reader, place, place + TAIL)


def _verify(look: Look, index: str, name: str, shard: int, data: Reader, start: int, end: int) -> None:
    """Every tensor of one shard that has bytes between `start` and `end`, against its checksum."""
    reader = look.opened(index)
    if reader is None:
        return
    with reader:
        try:
            bundle = tf_index.read(reader)
            for tensor in bundle.tensors:
                if tensor.shard != shard or tensor.offset + tensor.size <= start or tensor.offset >= end:
                    continue
                if tf_index.verify_tensor(data, tensor) is False:
                    title = printable(tensor.name)
                    look.problem(name, "checksum", f"the CRC-32C of {title} in {index}", "another")
                    return
        except Broken as broken:
            look.fault(name, broken.fault)
        except HOSTILE as error:
            look.fault(name, Fault("structure", "tensors as the index says", type(error).__name__))


def _count_shards(look: Look, folder: Folder, prefix: str) -> None:
    there: Dict[int, int] = {}
    for name in folder.files:
        match = _SHARD.match(name)
        if match is not None and match.group(1) == prefix:
            there[int(match.group(2))] = int(match.group(3))
            info = folder.stat(name)
            if info is not None and folder is look.candidate.root:
                look.stats[name] = info
    total = max(there.values(), default=0)
    lost = [shard for shard in range(min(total, 100_000)) if shard not in there]
    if lost:
        look.missing(f"{prefix}.data-{lost[0]:05d}-of-{total:05d}", f"{total} data shards")


LAYOUT = TensorFlow()
