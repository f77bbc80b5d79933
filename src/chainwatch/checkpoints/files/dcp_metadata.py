"""`.metadata` of torch distributed checkpoints: a pickle that says where in which file every shard lies.

`facts`:

- ``extents``: file name -> [end of its last item, number of items]; the file must be exactly that long;
- ``gaps``: tensors whose chunks do not add up to the tensor, or whose chunks no file holds (at most 20 names);
- ``tensors``; ``plain``: whether all items are stored as they are; ``zstd``: whether all others are zstd streams.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.opcodes import walk
from chainwatch.checkpoints.files.pickle_words import Global, Thing

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

_STORAGE_INFO = "torch.distributed.checkpoint.filesystem._StorageInfo"
_METADATA = "torch.distributed.checkpoint.metadata.Metadata"
MAX_GAPS = 20


class _Collector:
    """Takes the place of each shard from the pickle as soon as it is built, and drops what was built."""

    def __init__(self) -> None:
        self.extents: Dict[str, List[int]] = {}
        self.items = 0
        self.plain = True
        self.compressed = True
        """All that are transformed at all are zstd streams in the end."""

    def __call__(self, thing: Thing) -> None:
        if type(thing.func) is not Global or thing.func != _STORAGE_INFO or type(thing.state) is not dict:
            return
        state = thing.state
        path, offset, length = state.get("relative_path"), state.get("offset"), state.get("length")
        if type(path) is not str or type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
            raise Broken("structure", "a file, an offset and a length for each shard", "other values")
        transforms = state.get("transform_descriptors")
        if transforms:
            self.plain = False
            self.compressed = (
                self.compressed and type(transforms) is list and str(transforms[-1]).startswith("stream.zstd")
            )
        found = self.extents.setdefault(path, [0, 0])
        found[0] = max(found[0], offset + length)
        found[1] += 1
        self.items += 1
        state.clear()


def check(reader: Reader, deep: bool) -> Finding:
    """See the module."""
    head = reader.read(0, min(2, reader.size))
    if head[:1] != b"\x80":
        raise Broken("structure", "a pickle", "zeros at the start" if not any(head) else "other bytes at the start")
    collector = _Collector()
    walked = walk(reader, 0, reader.size, collector)
    if walked.end != reader.size:
        raise Broken("structure", f"{grouped(walked.end)} bytes", f"{grouped(reader.size)} bytes")
    value = walked.value
    if type(value) is not Thing or value.func != _METADATA or type(value.state) is not dict:
        raise Broken("structure", "the metadata of a distributed checkpoint", "another pickle")
    tensors = value.state.get("state_dict_metadata")
    gaps, chunks = _gaps(tensors if type(tensors) is dict else {})
    if collector.items < chunks:
        gaps.append(f"{grouped(chunks)} shards are declared and {grouped(collector.items)} are stored")
    return Finding(
        "dcp_metadata",
        facts={
            "extents": collector.extents,
            "gaps": gaps,
            "plain": collector.plain,
            "zstd": not collector.plain and collector.compressed,
            "tensors": len(tensors) if type(tensors) is dict else 0,
        },
    )


def _gaps(tensors: Dict[Any, Any]) -> Tuple[List[str], int]:
    """Tensors that their chunks do not fill, and the number of all chunks."""
    gaps: List[str] = []
    total = 0
    for name, thing in tensors.items():
        state = thing.state if type(thing) is Thing else None
        chunks = state.get("chunks") if type(state) is dict else None
        if type(state) is not dict or type(chunks) is not list:
            total += 1
            continue
        total += len(chunks)
        whole = _volume(state.get("size"))
        parts = [_volume(chunk.state.get("sizes")) for chunk in chunks if _has_state(chunk)]
        known = [part for part in parts if part is not None]
        if whole is not None and len(known) == len(chunks) and sum(known) < whole and len(gaps) < MAX_GAPS:
            gaps.append(f"{name}: its shards hold {grouped(sum(known))} of {grouped(whole)} elements")
    return gaps, total


def _has_state(thing: Any) -> bool:
    return type(thing) is Thing and type(thing.state) is dict


def _volume(size: Any) -> Optional[int]:
    """Elements of a `torch.Size`."""
    if type(size) is not Thing or type(size.args) is not tuple or len(size.args) != 1:
        return None
    total = 1
    dims = size.args[0]
    if type(dims) is not tuple or len(dims) > 64:
        return None
    for dim in dims:
        if type(dim) is not int or dim < 0 or dim > 1 << 62:
            return None
        total *= dim
    return total
