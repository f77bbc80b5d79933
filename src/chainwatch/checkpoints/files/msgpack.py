"""Flax's msgpack: one map, walked token by token; its lengths must lead exactly to the end of the file.

Arrays are extensions of type 1 that hold msgpack again: (shape, dtype name, bytes), and the shape must account for the
bytes (flax/serialization.py). Nothing is decoded: payloads are stepped over, so the walk reads some bytes per array.
Format: the MessagePack specification.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.zeros import lost_tail

NDARRAY, SCALAR = 1, 3
"""Flax's extension types whose payload is (shape, dtype name, bytes)."""
PLACEHOLDER = b"//GDAPlaceholder:"
"""Stands for an array that is spread over processes and stored beside the file."""
MAX_DEPTH = 1_000
MAX_TOKENS = 20_000_000
WINDOW = 1 << 13

ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e4m3b11fnuz": 1, "float8_e3m4": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""numpy's and ml_dtypes' names; other names are not checked."""


class Array(NamedTuple):
    """One array: where its bytes are."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    offset: int
    size: int


def check(reader: Reader, deep: bool) -> Finding:
    """Walk the whole file; `facts` has the number of arrays and, where there is a top-level one, the step."""
    facts: Dict[str, object] = {}
    count = 0
    for item in walk(reader, facts):
        if item is not None:
            count += 1
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    facts["tensors"] = count
    warning = lost_tail(reader, 0)
    return Finding("msgpack", warnings=(warning,) if warning else (), facts=facts)


def arrays(reader: Reader) -> Iterator[Array]:
    """Every array of the file, in order."""
    for item in walk(reader, {}):
        if item is not None:
            yield item


class _Level:
    """One open map or array."""

    __slots__ = ("is_map", "key", "left")

    def __init__(self, left: int, is_map: bool) -> None:
        self.left = left
        self.is_map = is_map
        self.key = ""


class _Window:
    """Small reads out of a larger one: most tokens lie close together."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.start = 0
        self.data = b""

    def read(self, at: int, length: int) -> bytes:
        begin = at - self.start
        if begin >= 0 and begin + length <= len(self.data):
            return self.data[begin : begin + length]
        size = self.reader.size
        if at + length > size:
            raise Broken(
                "truncated", f"a value of {grouped(length)} bytes at {grouped(at)}", f"ends at {grouped(size)}"
            )
        self.start = at
        self.data = self.reader.read(at, min(max(length, WINDOW), size - at))
        return self.data[:length]


def walk(reader: Reader, facts: Dict[str, object]) -> Iterator[Optional[Array]]:
    """Every array, and None for every other value; a top-level integer called `step` goes into `facts`.

    Raises:
        Broken: a length runs past the end, bytes are left over, or an array's shape does not account for its bytes.
    """
    window = _Window(reader)
    stack: List[_Level] = []
    at = tokens = 0
    while True:
        tokens += 1
        if tokens > MAX_TOKENS:
            raise Broken("limit", f"at most {grouped(MAX_TOKENS)} values", "more")
        kind, number, body = _token(window, at)
        if tokens == 1 and kind in ("int", "bytes"):
            raise Broken("structure", "a map or an array", "zeros" if not any(window.data[:64]) else "a plain value")
        level = stack[-1] if stack else None
        is_key = level is not None and level.is_map and level.left % 2 == 0
        if level is not None:
            level.left -= 1
        at = body
        if kind == "map" or kind == "array":
            if len(stack) >= MAX_DEPTH:
                raise Broken("limit", f"at most {MAX_DEPTH} levels", "more")
            stack.append(_Level(number * (2 if kind == "map" else 1), kind == "map"))
            yield None
        else:
            array = None
            if kind == "int":
                if len(stack) == 1 and level is not None and level.key == "step" and not is_key:
                    facts["step"] = number
            else:
                at += number
                if at > reader.size:
                    raise Broken("truncated", f"{grouped(at)} bytes", f"file ends at {grouped(reader.size)} bytes")
                if is_key and level is not None:
                    level.key = window.read(body, min(number, 256)).decode("utf-8", "replace")
                elif kind == "bytes" and len(PLACEHOLDER) < number < 4096:
                    if window.read(body, len(PLACEHOLDER)) == PLACEHOLDER:
                        facts["spread"] = True
                elif kind == "ext":
                    name = "/".join(one.key for one in stack if one.is_map)
                    array = _array(window, body, number, name)
            if array is not None and len(stack) == 1 and level is not None and level.key == "step":
                value = _scalar(window, array)
                if value is not None:
                    facts["step"] = value
            yield array
        while stack and stack[-1].left == 0:
            stack.pop()
        if not stack:
            break
    if at != reader.size:
        raise Broken(
            "structure", f"the end of the map at {grouped(at)} to be the end of the file", grouped(reader.size)
        )


def _token(window: _Window, at: int) -> Tuple[str, int, int]:
    """(kind, its number, offset behind the header): the number is a count, a length in bytes, or an integer's value."""
    first = window.read(at, 1)[0]
    at += 1
    if first < 0x80:
        return "int", first, at
    if first < 0x90:
        return "map", first & 15, at
    if first < 0xA0:
        return "array", first & 15, at
    if first < 0xC0:
        return "bytes", first & 31, at
    if first >= 0xE0:
        return "int", first - 256, at
    if first in (0xC0, 0xC2, 0xC3):
        return "bytes", 0, at
    if first == 0xC1:
        raise Broken("structure", "a msgpack value", f"the unused byte c1 at {grouped(at - 1)}")
    if first <= 0xC9:  # bin 8/16/32, then ext 8/16/32
        width = 1 << ((first - 0xC4) % 3)
        length = int.from_bytes(window.read(at, width), "big")
        return ("bytes", length, at + width) if first <= 0xC6 else ("ext", length + 1, at + width)
    if first <= 0xCB:
        return "bytes", 4 if first == 0xCA else 8, at
    if first <= 0xD3:  # uint 8 to 64, int 8 to 64
        width = 1 << ((first - 0xCC) % 4)
        return "int", int.from_bytes(window.read(at, width), "big", signed=first >= 0xD0), at + width
    if first <= 0xD8:  # fixext 1 to 16
        return "ext", (1 << (first - 0xD4)) + 1, at
    if first <= 0xDB:
        width = 1 << (first - 0xD9)
        return "bytes", int.from_bytes(window.read(at, width), "big"), at + width
    width = 2 if first in (0xDC, 0xDE) else 4
    return "map" if first >= 0xDE else "array", int.from_bytes(window.read(at, width), "big"), at + width


def _array(window: _Window, at: int, length: int, name: str) -> Optional[Array]:
    """An extension (its type byte first) of Flax's array types, with its shape checked against its bytes."""
    if window.read(at, 1)[0] not in (NDARRAY, SCALAR):
        return None
    end = at + length
    kind, number, at = _token(window, at + 1)
    if kind != "array" or number != 3:
        raise Broken("structure", f"(shape, dtype, bytes) in array {name}", f"{kind} of {number}")
    kind, rank, at = _token(window, at)
    if kind != "array" or rank > 64:
        raise Broken("structure", f"the shape of array {name}", f"{kind} of {rank}")
    shape: List[int] = []
    for _ in range(rank):
        kind, extent, at = _token(window, at)
        if kind != "int" or extent < 0:
            raise Broken("structure", f"the shape of array {name}", kind)
        shape.append(extent)
    kind, number, at = _token(window, at)
    if kind != "bytes" or number > 64:
        raise Broken("structure", f"the dtype of array {name}", kind)
    dtype = window.read(at, number).decode("utf-8", "replace")
    kind, size, at = _token(window, at + number)
    if kind != "bytes" or at + size != end:
        raise Broken("structure", f"the bytes of array {name} to end at {grouped(end)}", f"at {grouped(at + size)}")
    count = 1
    for extent in shape:
        count *= extent
    if dtype in ITEMSIZE and count * ITEMSIZE[dtype] != size:
        raise Broken("structure", f"{grouped(count * ITEMSIZE[dtype])} bytes in array {name}", grouped(size))
    return Array(name, dtype, tuple(shape), at, size)


def _scalar(window: _Window, array: Array) -> Optional[int]:
    if array.shape or array.dtype not in ("int32", "int64", "uint32", "uint64"):
        return None
    return int.from_bytes(window.read(array.offset, array.size), "little", signed=array.dtype[0] == "i")
