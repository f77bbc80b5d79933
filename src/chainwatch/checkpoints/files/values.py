"""Counting NaN and infinity in raw tensor bytes, by their bit patterns alone.

With numpy a block is looked at as integers; without it, the bytes that hold the exponent are sliced out first, and only
where they say that a value may be special is it looked at one by one, so that sound data are fast there, too.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, Callable, Dict, Iterable, NamedTuple, Optional, Tuple, Union

Buffer = Union[bytes, memoryview]


class Floats(NamedTuple):
    """A floating point type: which bit patterns are special."""

    width: int
    """Bytes."""
    infinity: int
    """Magnitude bits of infinity; patterns above it are NaN."""
    has_infinity: bool = True


DTYPES: Dict[str, Floats] = {
    "F16": Floats(2, 0x7C00),
    "BF16": Floats(2, 0x7F80),
    "F32": Floats(4, 0x7F800000),
    "F64": Floats(8, 0x7FF0000000000000),
    "F8_E5M2": Floats(1, 0x7C),
    "F8_E4M3": Floats(1, 0x7E, has_infinity=False),
}
"""By safetensors' names. E4M3 ("fn") has no infinity: 0x7F and 0xFF are NaN, 0x7E is a number."""

ALIASES: Dict[str, str] = {
    "float16": "F16", "half": "F16", "f2": "F16", "HalfStorage": "F16",
    "bfloat16": "BF16", "BFloat16Storage": "BF16",
    "float32": "F32", "float": "F32", "f4": "F32", "FloatStorage": "F32",
    "float64": "F64", "double": "F64", "f8": "F64", "DoubleStorage": "F64",
    "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "F8_E4M3FN": "F8_E4M3",
    "complex64": "F32", "c8": "F32", "C64": "F32", "ComplexFloatStorage": "F32",
    "complex128": "F64", "c16": "F64", "C128": "F64", "ComplexDoubleStorage": "F64",
}  # fmt: skip
"""Names that numpy, JAX, torch and zarr use; complex numbers are counted as their parts."""


class Counts(NamedTuple):
    """What was counted."""

    nan: int = 0
    infinite: int = 0
    values: int = 0


def floats_of(dtype: str) -> Optional[Floats]:
    """The type of that name in any of the formats; None for integers and for types that are not known."""
    name = dtype.lstrip("<>=|")
    name = name.rpartition(".")[2]
    return DTYPES.get(ALIASES.get(name, name))


def count(blocks: Iterable[Buffer], kind: Floats, little: bool = True) -> Counts:
    """NaN and infinite values in a stream of bytes; blocks may end in the middle of a value."""
    one = _counter()
    nan = infinite = values = 0
    rest = b""
    for block in blocks:
        data: Buffer = rest + bytes(block) if rest else block
        whole = len(data) - len(data) % kind.width
        rest = bytes(data[whole:])
        if whole:
            found = one(memoryview(data)[:whole], kind, little)
            nan += found[0]
            infinite += found[1]
            values += whole // kind.width
    return Counts(nan, infinite, values)


def _counter() -> Callable[[memoryview, Floats, bool], Tuple[int, int]]:
    try:
        import numpy
    except ImportError:
        return count_plain
    return _numpy_counter(numpy)


def _numpy_counter(numpy: Any) -> Callable[[memoryview, Floats, bool], Tuple[int, int]]:
    def one(data: memoryview, kind: Floats, little: bool) -> Tuple[int, int]:
        order = "<" if little else ">"
        bits = numpy.frombuffer(data, dtype=f"{order}u{kind.width}" if kind.width > 1 else "u1")
        magnitude = bits & ((1 << (8 * kind.width - 1)) - 1)
        above = magnitude > kind.infinity
        nan = int(numpy.count_nonzero(above))
        equal = int(numpy.count_nonzero(magnitude == kind.infinity)) if kind.has_infinity else 0
        return nan, equal

    return one


def count_plain(data: memoryview, kind: Floats, little: bool) -> Tuple[int, int]:
    """(NaN, infinite) without numpy."""
    width = kind.width
    top = bytes(data[width - 1 if little else 0 :: width])
    # The highest byte of a special value is 0x7F or 0xFF (or 0x7C to 0x7F for types with 5 bits of exponent).
    first = kind.infinity >> (8 * width - 8)
    if not any(value in top or value | 0x80 in top for value in range(first, 0x80)):
        return 0, 0
    values = array({1: "B", 2: "H", 4: "I", 8: "Q"}[width])
    values.frombytes(bytes(data))
    if width > 1 and little != (sys.byteorder == "little"):
        values.byteswap()
    mask = (1 << (8 * width - 1)) - 1
    nan = infinite = 0
    for at, high in enumerate(top):
        if high & 0x7F >= first:
            magnitude = values[at] & mask
            if magnitude > kind.infinity:
                nan += 1
            elif magnitude == kind.infinity and kind.has_infinity:
                infinite += 1
    return nan, infinite
