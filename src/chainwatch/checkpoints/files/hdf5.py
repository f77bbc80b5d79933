"""HDF5 files (h5py, Keras weights): the superblock says where the file ends, and all objects must lie before.

HDF5 data have no checksum unless a filter adds one; metadata of version 2 structures have.
Format: HDF5 File Format Specification 3.0, section Superblock.
"""

from __future__ import annotations

from typing import List, Tuple

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.hdf5_data import lost_data, verify
from chainwatch.checkpoints.files.hdf5_file import File, Read, checksummed
from chainwatch.checkpoints.files.hdf5_objects import Dataset, walk

__all__ = ["Read", "check", "examine"]

MAGIC = b"\x89HDF\r\n\x1a\n"
WRITING = 0x01
"""Consistency flag of a version 3 superblock: a writer had the file open, and did not close it."""


def check(reader: Reader, deep: bool) -> Finding:
    """Superblock, end of file, and every object that can be reached."""
    found, warnings, whole = examine(reader.read, reader.size)
    covered = verify(reader, found, deep)
    lost = lost_data(reader, found)
    if lost is not None:
        warnings.append(lost)
    facts = {"tensors": len(found), "walked": whole}
    return Finding("hdf5", warnings=tuple(warnings), checksummed=covered and whole, facts=facts)


def examine(read: Read, size: int) -> Tuple[List[Dataset], List[str], bool]:
    """(datasets, warnings, whether every object was reached) of the HDF5 file whose bytes `read` gives.

    It may lie inside another file, such as a `.keras` archive.

    Raises:
        Broken: it is cut, was not closed, or its objects do not hold together.
    """
    try:
        return _examine(read, size)
    except IndexError:
        raise Broken("structure", "an HDF5 file whose objects are whole", "one that ends in the middle") from None


def _examine(read: Read, size: int) -> Tuple[List[Dataset], List[str], bool]:
    where = _superblock(read, size)
    version = read(where + 8, 1)[0]
    if version in (0, 1):
        head = read(where, min(96 + (4 if version else 0), size - where))
        offsets, lengths = head[13], head[14]
        at = 28 if version else 24
        need = at + 4 * offsets + 2 * offsets
    elif version in (2, 3):
        head = read(where, min(48 + 32, size - where))
        offsets, lengths = head[9], head[10]
        at = 12
        need = at + 4 * offsets + 4
    else:
        raise Broken("structure", "an HDF5 superblock of version 0 to 3", f"version {version}")
    if offsets not in (4, 8) or lengths not in (4, 8) or len(head) < need:
        raise Broken("structure", "an HDF5 superblock with addresses of 4 or 8 bytes", f"{offsets} and {lengths}")

    def address(index: int) -> int:
        return int.from_bytes(head[at + index * offsets : at + (index + 1) * offsets], "little")

    base, end = address(0), address(2)
    if version >= 2:
        checksummed(head[: at + 4 * offsets + 4], "the superblock")
        if version == 3 and head[11] & WRITING:
            raise Broken("structure", "a file that its writer closed", "marked as open for writing")
        root = address(3)
    else:
        root = int.from_bytes(head[at + 5 * offsets : at + 6 * offsets], "little")
    if end > size:
        raise Broken("truncated", f"{grouped(end)} bytes, as the superblock says", f"{grouped(size)} bytes")
    warnings = []
    if end < size:
        warnings.append(f"{grouped(size - end)} bytes behind the end that the superblock states")
    file = File(read, base, end, offsets, lengths)
    found, whole = walk(file, root)
    return found, warnings, whole


def _superblock(read: Read, size: int) -> int:
    """Offset of the superblock: 0, or 512, 1024, 2048 … behind a user block."""
    at = 0
    while at + 9 <= size and at <= 1 << 30:
        if read(at, 8) == MAGIC:
            return at
        at = at * 2 if at else 512
    head = read(0, min(64, size))
    raise Broken("structure", "an HDF5 superblock", "zeros" if not any(head) else "other bytes")
