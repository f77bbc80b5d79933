"""The bytes of an HDF5 file by address, and the checksum of its newer metadata.

Format: HDF5 File Format Specification 3.0.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from chainwatch.checkpoints.files.base import Broken, grouped

Read = Callable[[int, int], bytes]


class File(NamedTuple):
    """What every address is read with."""

    read: Read
    base: int
    end: int
    """Absolute offset of the first byte past the data."""
    offsets: int
    """Bytes of an address."""
    lengths: int
    """Bytes of a length."""

    def at(self, address: int, length: int, what: str) -> bytes:
        """Bytes at an address of the file, which must lie before its end."""
        where = self.base + address
        if where + length > self.end:
            raise Broken(
                "structure",
                f"{what} before the end of the file at {grouped(self.end)}",
                f"it lies at {grouped(where)}",
            )
        return self.read(where, length)

    def undefined(self, address: int) -> bool:
        return address == (1 << (8 * self.offsets)) - 1

    def number(self, data: bytes, at: int, width: int) -> int:
        """A little-endian number inside `data`; IndexError where it ends before."""
        part = data[at : at + width]
        if len(part) < width:
            raise IndexError
        return int.from_bytes(part, "little")


def looks(data: bytes) -> str:
    """What lies where something else should."""
    return "zeros" if not any(data) else "other bytes"


def checksummed(block: bytes, what: str) -> None:
    """A block that ends in its own lookup3 checksum.

    Raises:
        Broken: the checksum differs.
    """
    if lookup3(block[:-4]) != int.from_bytes(block[-4:], "little"):
        raise Broken("checksum", f"the checksum of {what}", "another")


def lookup3(data: bytes) -> int:
    """Bob Jenkins' hashlittle, with which HDF5 checks its metadata."""
    mask = 0xFFFFFFFF
    length = len(data)
    a = b = c = (0xDEADBEEF + length) & mask
    at = 0
    while length - at > 12:
        a = (a + int.from_bytes(data[at : at + 4], "little")) & mask
        b = (b + int.from_bytes(data[at + 4 : at + 8], "little")) & mask
        c = (c + int.from_bytes(data[at + 8 : at + 12], "little")) & mask
        for turn in (4, 6, 8, 16, 19, 4):
            a = (a - c) & mask
            a ^= ((c << turn) | (c >> (32 - turn))) & mask
            c = (c + b) & mask
            a, b, c = b, c, a
        at += 12
    if at == length:
        return c
    tail = data[at:].ljust(12, b"\0")
    a = (a + int.from_bytes(tail[:4], "little")) & mask
    b = (b + int.from_bytes(tail[4:8], "little")) & mask
    c = (c + int.from_bytes(tail[8:12], "little")) & mask
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c ^= b
        c = (c - (((b << turn) | (b >> (32 - turn))) & mask)) & mask
        a, b, c = b, c, a
    return b
