"""TensorFlow's tensor bundle: the `.index` table, which says how far each data shard must reach.

The table is a LevelDB-style SSTable: blocks of prefix-compressed entries, each block with a masked CRC-32C, found
through an index block that a 48-byte footer names. Each entry is a BundleEntryProto with the place of one tensor and
the masked CRC-32C of its bytes.

Format: tensorflow/core/util/tensor_bundle, tensorflow/tsl/lib/io/format; seen on files by TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.checksums import crc32c

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
FOOTER = 48
ENTRY_LIMIT = 5_000_000
STRING = 7
"""DT_STRING: its checksum also covers the lengths, which are stored apart."""
OPAQUE = (20, 21)
"""DT_RESOURCE, DT_VARIANT: checksummed by rules of their own, which are not checked here."""
DTYPES = {
    1: "F32", 2: "F64", 3: "I32", 4: "U8", 5: "I16", 6: "I8", 7: "STRING", 8: "C64", 9: "I64", 10: "BOOL", 14: "BF16",
    17: "U16", 18: "C128", 19: "F16", 22: "U32", 23: "U64", 24: "F8_E5M2", 25: "F8_E4M3",
}  # fmt: skip
"""DataType numbers of tensorflow/core/framework/types.proto -> names as safetensors has them."""


class Tensor(NamedTuple):
    """One tensor's place in the data shards."""

    name: str
    dtype: int
    shape: Tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    """Masked CRC-32C of its bytes."""


class Bundle(NamedTuple):
    """What an index says."""

    shards: int
    tensors: List[Tensor]


def check(reader: Reader, deep: bool) -> Finding:
    """The index file on its own; `facts["extents"]` has the bytes that each shard must at least have."""
    bundle = read(reader)
    extents = [0] * bundle.shards
    for tensor in bundle.tensors:
        extents[tensor.shard] = max(extents[tensor.shard], tensor.offset + tensor.size)
    facts: Dict[str, object] = {"shards": bundle.shards, "extents": extents, "tensors": len(bundle.tensors)}
    return Finding("tf_index", checksummed=True, facts=facts)


def read(reader: Reader) -> Bundle:
    """Every entry of an index file, each of its blocks verified.

    Raises:
        Broken: the table is cut, a checksum differs, or an entry makes no sense.
    """
    if reader.size < FOOTER:
        raise Broken("truncated", f"an index of at least {FOOTER} bytes", f"{reader.size} bytes")
    footer = reader.read(reader.size - FOOTER, FOOTER)
    if footer[-8:] != MAGIC:
        raise Broken("truncated", "the SSTable footer at the end of the file", "no footer there")
    at = 0
    for _ in range(2):  # of the metaindex block, which is empty
        _, at = _varint(footer, at)
    offset, at = _varint(footer, at)
    size, at = _varint(footer, at)
    shards = 0
    tensors: List[Tensor] = []
    for _, handle in _entries(_block(reader, offset, size)):
        where, past = _varint(handle, 0)
        length, _ = _varint(handle, past)
        for key, value in _entries(_block(reader, where, length)):
            if not key:
                shards = _int(_fields(value).get(1, 0))
                continue
            tensors.append(_tensor(key, value))
            if len(tensors) > ENTRY_LIMIT:
                raise Broken("limit", f"at most {grouped(ENTRY_LIMIT)} tensors", "more")
    if not 0 < shards < 1_000_000:
        raise Broken("structure", "a header with the number of shards", f"{shards} shards")
    for tensor in tensors:
        if tensor.shard >= shards:
            raise Broken("structure", f"shards below {shards}", f"shard {tensor.shard} for {tensor.name}")
    return Bundle(shards, tensors)


def verify_tensor(data: Reader, tensor: Tensor) -> Optional[bool]:
    """Does the tensor's checksum hold? None where it cannot be computed here (no library, or an opaque type)."""
    if tensor.dtype in OPAQUE or not tensor.size:
        return None
    if tensor.dtype == STRING:
        return _verify_strings(data, tensor)
    return masked(crc32c(data.blocks(tensor.offset, tensor.size))) == tensor.crc


def _verify_strings(data: Reader, tensor: Tensor) -> Optional[bool]:
    """Strings are stored as varint lengths, a masked CRC of them as fixed-width integers, then the bytes; the tensor's
    CRC covers the fixed-width lengths, that checksum, and the bytes (tensor_bundle.cc, WriteStringTensor)."""
    count = 1
    for extent in tensor.shape:
        count *= extent
    if count > tensor.size or tensor.size > 1 << 28:
        return None
    raw = data.read(tensor.offset, tensor.size)
    at = 0
    lengths = []
    for _ in range(count):
        length, at = _varint(raw, at)
        lengths.append(length.to_bytes(4 if length < 1 << 32 else 8, "little"))
    fixed = memoryview(b"".join(lengths))
    if int.from_bytes(raw[at : at + 4], "little") != masked(crc32c([fixed])):
        return False
    return masked(crc32c([fixed, memoryview(raw)[at:]])) == tensor.crc


def masked(crc: int) -> int:
    """A stored CRC is rotated and moved by a constant: the CRC of data that itself holds CRCs would be weak."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _block(reader: Reader, offset: int, size: int) -> bytes:
    """One block, its CRC verified: the contents, a byte that says how they are compressed, and the CRC of both."""
    if offset + size + 5 > reader.size - FOOTER:
        raise Broken("structure", "blocks that lie inside the file", f"a block at {grouped(offset)} of {grouped(size)}")
    raw = reader.read(offset, size + 5)
    if masked(crc32c([memoryview(raw)[:-4]])) != int.from_bytes(raw[-4:], "little"):
        raise Broken("checksum", f"the CRC-32C of the block at byte {grouped(offset)}", "another")
    if raw[size] != 0:
        raise Broken("structure", "an uncompressed block, as TensorFlow writes them", f"compression {raw[size]}")
    return raw[:size]


def _entries(block: bytes) -> Iterator[Tuple[bytes, bytes]]:
    """Key and value of each entry: keys share a prefix with the one before; restart offsets end the block."""
    if len(block) < 4:
        raise Broken("structure", "a block with restart points", f"{len(block)} bytes")
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    if end < 0:
        raise Broken("structure", "restart points inside the block", "more than fit")
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        length, at = _varint(block, at)
        if shared > len(key) or at + rest + length > end:
            raise Broken("structure", "entries that lie inside the block", "one that runs past its end")
        key = key[:shared] + block[at : at + rest]
        at += rest
        yield key, block[at : at + length]
        at += length


def _tensor(key: bytes, value: bytes) -> Tensor:
    fields = _fields(value)
    shape: List[int] = []
    packed = fields.get(2, b"")
    if isinstance(packed, bytes):
        for number, part in _repeated(packed):
            if number == 2 and isinstance(part, bytes):
                extent = _int(_fields(part).get(1, 0))
                shape.append(extent if extent < 1 << 63 else extent - (1 << 64))
    return Tensor(
        key.decode("utf-8", "backslashreplace"),
        _int(fields.get(1, 0)),
        tuple(shape),
        _int(fields.get(3, 0)),
        _int(fields.get(4, 0)),
        _int(fields.get(5, 0)),
        _int(fields.get(6, 0)),
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise Broken("structure", "a number in an index entry", "bytes")
    return value


def _fields(data: bytes) -> Dict[int, object]:
    """Fields of a protocol buffer message by number; the last one of each wins."""
    return dict(_repeated(data))


def _repeated(data: bytes) -> Iterator[Tuple[int, object]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: object
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value = int.from_bytes(data[at : at + width], "little")
            at += width
        elif kind == 2:
            length, at = _varint(data, at)
            value = data[at : at + length]
            at += length
        else:
            raise Broken("structure", "a protocol buffer message", f"wire type {kind}")
        if at > len(data):
            raise Broken("structure", "a whole protocol buffer message", "one that ends early")
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Broken("structure", "a varint", "bytes that are none")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
