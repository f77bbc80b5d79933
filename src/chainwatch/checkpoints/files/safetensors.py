"""safetensors: a length, a JSON header with every tensor's dtype, shape and place, and the bytes, without a gap.

The header tells the exact size of the file, so every cut is seen; there is no checksum, so a flipped bit is not. A tail
that was lost and reads as zeros shows only as a hole in the file or as a long run of zeros: a warning.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped, printable
from chainwatch.checkpoints.files.jsons import Nested, loads
from chainwatch.checkpoints.files.zeros import lost_tail

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

MAX_HEADER = 100_000_000
"""The limit of the safetensors library itself."""

ITEM_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64, "C128": 128,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""dtype -> bits of an element; unknown ones are not judged."""


def check(reader: Reader, deep: bool) -> Finding:
    """`facts`: `bytes` of all tensors, `names` -> [shape, begin, end] in the file, `metadata` (the header's own)."""
    header, start = read_header(reader)
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict:
        raise Broken("structure", "a dictionary as __metadata__", type(metadata).__name__)
    names: Dict[str, List[Any]] = {}
    spans: List[Tuple[int, int, str]] = []
    for name, entry in header.items():
        begin, end, shape = _place(name, entry)
        spans.append((begin, end, name))
        names[name] = [shape, start + begin, start + end]
    spans.sort()
    where = 0
    for begin, end, name in spans:
        if begin != where:
            raise Broken("structure", f"tensor {printable(name)} at {grouped(where)}", f"at {grouped(begin)}")
        where = end
    if start + where != reader.size:
        code = "truncated" if start + where > reader.size else "structure"
        raise Broken(code, f"{grouped(start + where)} bytes, as its header says", f"{grouped(reader.size)} bytes")
    warning = lost_tail(reader, start)
    if deep:
        for _ in reader.blocks(start, reader.size - start):
            pass
    facts = {"bytes": where, "names": names, "metadata": metadata}
    return Finding("safetensors", warnings=(warning,) if warning else (), facts=facts)


def read_header(reader: Reader) -> Tuple[Dict[str, Any], int]:
    """The JSON header and the offset of the data."""
    if reader.size < 8:
        raise Broken("truncated", "a safetensors header", f"{reader.size} bytes")
    length = int.from_bytes(reader.read(0, 8), "little")
    if length == 0:
        raise Broken("structure", "a safetensors header", "zeros at the start")
    if length > MAX_HEADER:
        raise Broken("structure", "a header of at most 100 MB", f"a header length of {grouped(length)}")
    if 8 + length > reader.size:
        raise Broken("truncated", f"at least {grouped(8 + length)} bytes", f"{grouped(reader.size)} bytes")
    raw = reader.read(8, length)
    if raw[:1] != b"{":
        raise Broken("structure", "a JSON header", "zeros" if not any(raw[:64]) else "other bytes")
    try:
        header = loads(raw)
    except Nested:
        raise Broken("structure", "a JSON header", "JSON that is nested without end") from None
    except ValueError:
        raise Broken("structure", "a JSON header", "text that does not parse") from None
    if type(header) is not dict:
        raise Broken("structure", "a dictionary of tensors", type(header).__name__)
    return header, 8 + length


def _place(name: str, entry: Any) -> Tuple[int, int, List[int]]:
    """(begin, end, shape) of one tensor, consistent with its dtype."""
    shown = printable(name)
    offsets: Optional[Any] = entry.get("data_offsets") if type(entry) is dict else None
    shape = entry.get("shape") if type(entry) is dict else None
    if type(offsets) is not list or len(offsets) != 2 or type(shape) is not list:
        raise Broken("structure", f"shape and offsets of tensor {shown}", "other values")
    begin, end = offsets
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end <= 1 << 63:
        raise Broken("structure", f"offsets of tensor {shown}", "other values")
    elements = 1
    for dim in shape:
        if type(dim) is not int or dim < 0 or elements > 1 << 63:
            raise Broken("structure", f"a shape of tensor {shown}", "other values")
        elements *= dim
    bits = ITEM_BITS.get(entry.get("dtype")) if type(entry.get("dtype")) is str else None
    if bits is not None and (elements * bits + 7) // 8 != end - begin:
        raise Broken("structure", f"{grouped(elements * bits // 8)} bytes for {shown}", f"{grouped(end - begin)} bytes")
    return begin, end, shape
