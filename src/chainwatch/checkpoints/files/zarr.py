"""zarr arrays (version 2 and 3), as tensorstore writes them: which chunks there must be, and whether each is whole.

A chunk is a file of its own, or a value in an OCDBT database. What one must look like follows from its codecs: an
uncompressed one has exactly the bytes of its shape, a zstd frame is walked to its end, a shard (zarr 3) ends in an
index with a CRC-32C that says where its inner chunks lie.

Formats: zarr specification v2; zarr core v3, codecs `sharding_indexed`, `zstd`, `gzip`, `blosc`, `crc32c`.
"""

from __future__ import annotations

import itertools
import json
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files import zstd
from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.checksums import crc32c
from chainwatch.checkpoints.patterns import Pattern

MAX_DECODED = 64 << 30
ABSENT = (1 << 64) - 1

Read = Callable[[int, int], bytes]
Blocks = Callable[[int, int], Iterable[memoryview]]

_V2 = Pattern(r"^[<>|]?([a-zA-Z])(\d+)$")
_WIDTHS = {"bool": 1, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int4": 1, "uint4": 1, "int2": 1}
_V3 = Pattern(r"^(?:u?int|float|complex|r)(\d+)$")


class Grid(NamedTuple):
    """What the metadata of one array promise."""

    shape: Tuple[int, ...]
    chunks: Tuple[int, ...]
    dtype: str
    """As the file has it: `<f4`, `bfloat16`, `float32`."""
    itemsize: int
    """0 where the dtype is none of the known ones."""
    codec: str
    """`none`, `zstd`, `gzip`, `zlib`, `blosc`, `shard`, or the name of one that is not looked into."""
    prefix: str
    separator: str
    inner: int = 0
    """Inner chunks of a shard."""
    crc: bool = False
    """True where each chunk (each inner one of a shard) ends in a CRC-32C."""
    index_first: bool = False
    index_crc: bool = False
    inner_codec: str = "none"

    @property
    def total(self) -> int:
        """Number of chunks."""
        total = 1
        for extent, chunk in zip(self.shape, self.chunks):
            total *= -(-extent // chunk) if chunk else 0
        return total

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk; 0 where the dtype is not known."""
        total = self.itemsize
        for chunk in self.chunks:
            total *= chunk
        return total

    def names(self) -> Iterator[str]:
        """The key of every chunk, relative to the array; for grids of which `total` is no more than a few millions."""
        ranges = [range(-(-extent // chunk)) if chunk else range(0) for extent, chunk in zip(self.shape, self.chunks)]
        if not ranges:
            yield "c" if self.prefix else "0"
            return
        for index in itertools.product(*ranges):
            yield self.prefix + self.separator.join(map(str, index))


def parse(text: bytes) -> Optional[Grid]:
    """The metadata of an array (`.zarray`, or `zarr.json` of an array); None for a group.

    Raises:
        Broken: it is no JSON, or makes no sense.
    """
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("no object")
        if value.get("zarr_format") == 3:
            return None if value.get("node_type") == "group" else _version3(value)
        return _version2(value)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        found = "zeros" if text and not any(text) else f"{type(error).__name__} in {grouped(len(text))} bytes"
        raise Broken("structure", "the metadata of a zarr array", found) from None


def _version2(value: dict) -> Grid:  # type: ignore[type-arg]
    dtype = value["dtype"]
    compressor = value.get("compressor")
    codec = "none" if compressor is None else str(compressor["id"])
    if value.get("filters"):
        codec = "filters" if codec == "none" else codec
    separator = str(value.get("dimension_separator") or ".")
    name = dtype if isinstance(dtype, str) else ""
    return _grid(Grid((), (), name, _width(name), codec, "", separator), value["shape"], value["chunks"])


def _version3(value: dict) -> Grid:  # type: ignore[type-arg]
    dtype = value["data_type"] if isinstance(value["data_type"], str) else ""
    encoding = value.get("chunk_key_encoding") or {"name": "default"}
    default = encoding["name"] == "default"
    separator = str((encoding.get("configuration") or {}).get("separator", "/" if default else "."))
    outer = value["chunk_grid"]["configuration"]["chunk_shape"]
    codec, crc, config = _codecs(value["codecs"])
    base = Grid((), (), dtype, _width(dtype), codec, "c" + separator if default else "", separator, crc=crc)
    if codec == "shard":
        inner = 1
        for extent, part in zip(outer, config["chunk_shape"]):
            inner *= -(-int(extent) // int(part))
        inner_codec, inner_crc, _ = _codecs(config["codecs"])
        _, index_crc, _ = _codecs(config.get("index_codecs") or [])
        first = config.get("index_location", "end") == "start"
        base = base._replace(
            inner=inner, crc=inner_crc, index_first=first, index_crc=index_crc, inner_codec=inner_codec
        )
    return _grid(base, value["shape"], outer)


def _grid(base: Grid, shape: List[int], chunks: List[int]) -> Grid:
    grid = base._replace(shape=tuple(int(each) for each in shape), chunks=tuple(int(each) for each in chunks))
    numbers = (*grid.shape, *grid.chunks, 0)
    if len(grid.shape) != len(grid.chunks) or len(grid.shape) > 64 or min(numbers) < 0 or max(numbers) >= 1 << 63:
        raise ValueError("shape")
    return grid


def _codecs(codecs: List[dict]) -> Tuple[str, bool, dict]:  # type: ignore[type-arg]
    """(what compresses, whether a CRC-32C follows, its configuration) of a zarr 3 codec chain."""
    found, crc, config = "none", False, {}
    for codec in codecs:
        name = codec["name"]
        if name == "sharding_indexed":
            found, config = "shard", codec["configuration"]
        elif name == "crc32c":
            crc = True
        elif name not in ("bytes", "transpose"):
            found, config = str(name), codec.get("configuration") or {}
    return found, crc, config


def _width(dtype: str) -> int:
    if dtype in _WIDTHS:
        return _WIDTHS[dtype]
    match = _V2.match(dtype)
    if match is not None:
        return int(match.group(2)) * (4 if match.group(1) == "U" else 1)
    match = _V3.match(dtype)
    return int(match.group(1)) // 8 if match is not None else 0


def check_chunk(read: Read, blocks: Blocks, start: int, length: int, grid: Grid, deep: bool) -> bool:
    """Is the chunk in `start`..`start + length` whole? Returns whether a checksum covered it (deep).

    Raises:
        Broken: it is cut, zeroed, of another size than its array says, or (deep) does not decode.
    """
    if grid.codec == "shard":
        return _shard(read, blocks, start, length, grid, deep)
    return _codec(read, blocks, start, length, grid.codec, grid.crc, grid.chunk_bytes, deep)


def _codec(
    read: Read, blocks: Blocks, start: int, length: int, codec: str, crc: bool, decoded: int, deep: bool
) -> bool:
    if crc:
        if length < 4:
            raise Broken("truncated", "a chunk with its CRC-32C", f"{length} bytes")
        length -= 4
        if deep and crc32c(blocks(start, length)) != int.from_bytes(read(start + length, 4), "little"):
            raise Broken("checksum", f"the CRC-32C of the chunk at {grouped(start)}", "another")
    end = start + length
    if codec == "none":
        if decoded and length != decoded:
            raise Broken("truncated" if length < decoded else "structure", f"{grouped(decoded)} bytes", grouped(length))
        return crc
    if codec == "zstd":
        frame = zstd.walk(read, start, end)
        if frame.end != end:
            raise Broken("structure", f"the zstd frame to end at {grouped(end)}", f"it ends at {grouped(frame.end)}")
        if frame.content is not None and decoded and frame.content != decoded:
            raise Broken("structure", f"{grouped(decoded)} bytes in the chunk", grouped(frame.content))
        suspicious = length > 16 and not any(read(end - 8, 8))  # zeros at the end: perhaps a tail that was lost
        if (deep or suspicious) and not crc and zstd.available():
            length = sum(len(part) for part in zstd.stream(blocks(start, length), decoded or MAX_DECODED))
            if decoded and length != decoded:
                raise Broken("checksum", f"{grouped(decoded)} bytes in the decoded chunk", grouped(length))
        return crc or bool(frame.checksum)
    if codec == "blosc":
        head = read(start, min(16, length))
        size = int.from_bytes(head[12:16], "little") if len(head) == 16 else 16
        if size != length:
            raise Broken("truncated" if size > length else "structure", f"{grouped(size)} bytes", grouped(length))
        return crc
    if codec in ("gzip", "zlib"):
        return _inflate(read, blocks, start, length, codec, decoded, deep)
    return crc


def _inflate(read: Read, blocks: Blocks, start: int, length: int, codec: str, decoded: int, deep: bool) -> bool:
    """gzip and zlib do not say their length at the front: a cut shows in the trailer, or only by inflating."""
    import zlib

    if codec == "gzip" and not deep and length >= 18 and decoded:
        if read(start, 2) != b"\x1f\x8b":
            raise Broken("structure", "a gzip stream", "other bytes")
        if int.from_bytes(read(start + length - 4, 4), "little") != decoded & 0xFFFFFFFF:
            raise Broken("truncated", "a gzip stream that ends in its length", "other bytes")
        return True
    machine = zlib.decompressobj(31 if codec == "gzip" else 15)
    total = 0
    for block in blocks(start, length):
        pending = bytes(block)
        while pending and not machine.eof:
            try:
                total += len(machine.decompress(pending, 1 << 20))
            except zlib.error as error:
                raise Broken("checksum", f"a {codec} stream that inflates", str(error)) from None
            pending = machine.unconsumed_tail
            if total > (decoded or MAX_DECODED):
                raise Broken("limit", f"{grouped(decoded)} bytes when inflated", "more")
    if not machine.eof:
        raise Broken("truncated", f"a whole {codec} stream", f"{grouped(length)} bytes of it")
    return True


def _shard(read: Read, blocks: Blocks, start: int, length: int, grid: Grid, deep: bool) -> bool:
    size = 16 * grid.inner + (4 if grid.index_crc else 0)
    if length < size or size > 1 << 28:
        raise Broken("truncated", f"a shard with an index of {grouped(size)} bytes", grouped(length))
    where = start if grid.index_first else start + length - size
    index = read(where, size)
    if grid.index_crc:
        stored = int.from_bytes(index[-4:], "little")
        index = index[:-4]
        if crc32c([memoryview(index)]) != stored:
            zeros = not any(index)
            raise Broken("truncated", "the shard's index, with its CRC-32C", "zeros" if zeros else "other bytes")
    covered = True
    for at in range(0, len(index), 16):
        offset = int.from_bytes(index[at : at + 8], "little")
        span = int.from_bytes(index[at + 8 : at + 16], "little")
        if offset == ABSENT and span == ABSENT:
            continue
        if offset + span > length:
            raise Broken("truncated", f"an inner chunk up to {grouped(offset + span)}", f"ends at {grouped(length)}")
        if deep or grid.inner <= 64 or at + 16 >= len(index):
            part = _codec(read, blocks, start + offset, span, grid.inner_codec, grid.crc, 0, deep)
            covered = covered and part
    return covered
