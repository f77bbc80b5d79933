"""safetensors: a JSON header that places every tensor, then the data, without a gap and without a checksum.

Rules as in the reference implementation: header of at most 100 MB, offsets that begin at 0, follow one another without
a hole, are as long as shape and type say, and end at the end of the file. That finds every cut; nothing in the file
shows a flipped bit, and a lost tail only by being zeros.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Tuple

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped, human, printable

MAX_HEADER = 100_000_000
TAIL = 1 << 20
"""Bytes at the end that a quick check looks at: if they, or the last quarter of the data, are all zeros, that is said."""
BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32,
    "U16": 16, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64,
}  # fmt: skip


class Tensor(NamedTuple):
    """One tensor's place in the file."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    start: int
    """Absolute offset of its first byte."""
    size: int


class Header(NamedTuple):
    """What the header says."""

    tensors: Tuple[Tensor, ...]
    """In the order of their data."""
    metadata: Dict[str, str]
    data: int
    """Offset of the data."""


def check(reader: Reader, deep: bool) -> Finding:
    """The header against the size of the file; `facts["names"]` has the tensors' names."""
    header = read_header(reader)
    warnings = []
    if reader.size > header.data:
        warning = _zeros(reader, header.data)
        if warning:
            warnings.append(warning)
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    facts: Dict[str, object] = {
        "tensors": len(header.tensors),
        "bytes": reader.size - header.data,
        "names": [tensor.name for tensor in header.tensors],
        "metadata": header.metadata,
    }
    return Finding("safetensors", warnings=tuple(warnings), facts=facts)


def read_header(reader: Reader) -> Header:
    """The header, all of its rules held.

    Raises:
        Broken: it is cut, is no header, or does not account for the file.
    """
    if reader.size < 8:
        raise Broken("truncated", "a header length of 8 bytes", f"{reader.size} bytes")
    length = int.from_bytes(reader.read(0, 8), "little")
    if length > MAX_HEADER:
        raise Broken("structure", f"a header of at most {grouped(MAX_HEADER)} bytes", f"{grouped(length)} stated")
    if 8 + length > reader.size:
        raise Broken("truncated", f"a header of {grouped(length)} bytes", f"file ends at {grouped(reader.size)} bytes")
    text = reader.read(8, length)
    if text[:1] != b"{":
        raise Broken("structure", "a JSON header", "zeros" if not any(text[:64]) else "other bytes")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Broken("structure", "a JSON header", "text that does not parse") from None
    metadata = value.pop("__metadata__", None)
    tensors = _tensors(value, 8 + length)
    end = 8 + length
    for tensor in tensors:
        if tensor.start != end:
            raise Broken("structure", f"tensor {printable(tensor.name)} at {grouped(end)}", grouped(tensor.start))
        end += tensor.size
    if end != reader.size:
        code = "truncated" if end > reader.size else "structure"
        raise Broken(code, f"{grouped(end)} bytes, as its header says", f"{grouped(reader.size)} bytes")
    plain = {str(key): str(each) for key, each in metadata.items()} if isinstance(metadata, dict) else {}
    return Header(tuple(tensors), plain, 8 + length)


def _tensors(value: Dict[str, Any], data: int) -> List[Tensor]:
    found = []
    for name, item in value.items():
        try:
            dtype, shape, (start, end) = item["dtype"], tuple(item["shape"]), item["data_offsets"]
            bits = BITS.get(dtype)
            for extent in shape:
                bits = None if bits is None else bits * extent
            whole = all(type(each) is int and each >= 0 for each in (*shape, start, end))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise Broken("structure", f"type, shape and place of {printable(str(name))}", "others") from None
        if not whole or end < start or (bits is not None and (bits + 7) // 8 != end - start):
            raise Broken(
                "structure",
                f"tensor {printable(name)} as long as its shape says",
                f"{shape} {dtype} in {end - start} bytes",
            )
        found.append(Tensor(name, dtype, shape, data + start, end - start))
    found.sort(key=_place)
    return found


def _place(tensor: Tensor) -> Tuple[int, int]:
    return tensor.start, tensor.size


def _zeros(reader: Reader, data: int) -> str:
    """What is suspicious about the data: a hole in a sparse file, or nothing but zeros at the end."""
    size = reader.size
    try:
        hole = os.lseek(reader.fd, data, os.SEEK_HOLE)
    except (OSError, AttributeError):
        hole = size
    if size - hole >= 4096:
        return f"a hole of {human(size - hole)} or less from {grouped(hole)} on, where data should be"
    tail = min((size - data) // 4, TAIL)
    if tail >= 256 and not any(reader.read(size - tail, tail)):
        return f"its last {grouped(tail)} bytes are zeros"
    return ""
