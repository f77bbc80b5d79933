"""What HDF5 does to a chunk before it is stored: compression, byte shuffling, checksums; undone here as far as needed.

Deflate carries an Adler-32 over the data, and the filter fletcher32 a checksum of its own: those are the only checksums
over the data that HDF5 has. Format: HDF5 File Format Specification 3.0, section Filter Pipeline Message.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import NamedTuple, Optional, Sequence, Tuple

from chainwatch.checkpoints.files.base import Broken

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
KNOWN = frozenset((DEFLATE, SHUFFLE, FLETCHER32))
MAX_CHUNK = 4 << 30
"""Bytes of a chunk by the format."""


def pipeline(body: bytes) -> Tuple[int, ...]:
    """The identifiers of the filters, in the order in which they were applied when the chunk was written."""
    version, count = body[0], body[1]
    at = 8 if version == 1 else 2
    found = []
    for _ in range(count):
        identifier = _u16(body, at)
        at += 2
        name = 0
        if version == 1 or identifier >= 256:
            name = _u16(body, at)
            at += 2
        values = _u16(body, at + 2)
        at += 4 + (name + 7) // 8 * 8 if version == 1 else 4 + name
        at += 4 * values + (4 if version == 1 and values % 2 else 0)
        found.append(identifier)
    return tuple(found)


class Decoded(NamedTuple):
    """A chunk with its filters undone."""

    data: Optional[bytes]
    """As the program wrote it; None where a filter is not known here."""
    verified: bool
    """True where a checksum covered it."""


def decode(stored: bytes, filters: Sequence[int], mask: int, size: int, width: int, what: str) -> Decoded:
    """Undo the filters, last one first, and verify the checksums on the way.

    Args:
        mask: bit n is set where filter n was left out for this chunk.
        size: bytes of a whole chunk as the program wrote it.
        width: bytes of an element, for the shuffle.

    Raises:
        Broken: `checksum` where one differs, `structure` where the bytes cannot be inflated.
    """
    data, verified = stored, False
    for index in reversed(range(len(filters))):
        if mask >> index & 1:
            continue
        kind = filters[index]
        if kind == DEFLATE:
            data, verified = _inflate(data, size + 4 * len(filters), what), True
        elif kind == SHUFFLE:
            data = _unshuffled(data, width)
        elif kind == FLETCHER32:
            data, verified = _checked(data, what), True
        else:
            return Decoded(None, verified)
    return Decoded(data, verified)


def plausible(head: bytes, filters: Sequence[int], mask: int) -> bool:
    """Can the first two bytes of a stored chunk be what its last filter writes? A lost one is zeros."""
    if not filters or filters[-1] != DEFLATE or mask >> (len(filters) - 1) & 1 or len(head) < 2:
        return True
    return head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0


def _inflate(data: bytes, limit: int, what: str) -> bytes:
    import zlib

    machine = zlib.decompressobj()
    try:
        out = machine.decompress(data, min(limit, MAX_CHUNK) + 1)
    except zlib.error as error:
        code = "checksum" if "incorrect data check" in str(error) else "structure"
        raise Broken(code, f"a chunk of {what} that inflates", "one that does not") from None
    if not machine.eof or len(out) > limit:
        raise Broken("structure", f"a chunk of {what} that inflates to its size", "another size")
    return out


def _unshuffled(data: bytes, width: int) -> bytes:
    count = len(data) // width if width > 1 else 0
    if count < 2:
        return data
    out = bytearray(data)
    for byte in range(width):
        out[byte : count * width : width] = data[byte * count : (byte + 1) * count]
    return bytes(out)


def _checked(data: bytes, what: str) -> bytes:
    body, told = data[:-4], data[-4:]
    if len(told) < 4:
        raise Broken("structure", f"a chunk of {what} with its checksum", f"{len(data)} bytes")
    # Before HDF5 1.6.3 the halves were stored in the machine's order; libraries accept both to this day.
    found = fletcher32(body)
    if found not in (_folded(int.from_bytes(told, "little")), _folded(int.from_bytes(_swapped(told), "little"))):
        raise Broken("checksum", f"the fletcher32 of a chunk of {what}", "another")
    return body


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum of 16-bit big-endian words as HDF5 computes it, its halves modulo 65535."""
    words = array("H", data if len(data) % 2 == 0 else data + b"\0")
    if array("H", b"\0\1")[0] != 1:
        words.byteswap()
    first = second = 0
    for at in range(0, len(words), 1 << 16):
        part = words[at : at + (1 << 16)]
        second = (second + first * len(part) + sum(accumulate(part))) % 65535
        first = (first + sum(part)) % 65535
    return second << 16 | first


def _folded(value: int) -> int:
    return (value >> 16) % 65535 << 16 | (value & 0xFFFF) % 65535


def _swapped(data: bytes) -> bytes:
    return bytes((data[1], data[0], data[3], data[2]))


def _u16(body: bytes, at: int) -> int:
    if at + 2 > len(body):
        raise IndexError
    return int.from_bytes(body[at : at + 2], "little")
