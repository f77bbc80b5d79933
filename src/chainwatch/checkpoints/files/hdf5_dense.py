"""Densely stored links of HDF5 groups (more than eight members, with newer libraries): a B-tree over a fractal heap.

The version 2 B-tree of names gives heap IDs; the heap's direct blocks hold the link messages themselves.
Format: HDF5 File Format Specification 3.0, section Fractal Heap.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Tuple

from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.hdf5_file import File, checksummed, looks
from chainwatch.checkpoints.files.hdf5_tree import records

MAX_BLOCKS = 1_000_000
MAX_BLOCK = 1 << 26


class _Heap(NamedTuple):
    """What the header of a fractal heap says."""

    file: File
    width: int
    start: int
    """Bytes of the smallest block."""
    largest: int
    """Bytes of the largest direct block."""
    offsets: int
    """Bytes of an offset in the heap."""
    root: int
    rows: int
    """Of the root indirect block; 0 where the root is a direct block."""


def dense_links(file: File, heap_address: int, tree_address: int, what: str) -> Iterator[bytes]:
    """The body of every link message of a group.

    Raises:
        Broken: the heap or the tree is not what it must be.
    """
    heap = _heap(file, heap_address, what)
    blocks = sorted(_blocks(heap, what))
    starts = [block[0] for block in blocks]
    from bisect import bisect_right

    for record in records(file, tree_address, f"the names in {what}"):
        identity = record[4:]
        if len(identity) <= heap.offsets or identity[0] & 0x30:
            raise Broken("structure", f"the place of a link in {what}", "another kind of heap object")
        offset = int.from_bytes(identity[1 : 1 + heap.offsets], "little")
        length = int.from_bytes(identity[1 + heap.offsets :], "little")
        index = bisect_right(starts, offset) - 1
        if index < 0 or offset + length > blocks[index][0] + blocks[index][1]:
            raise Broken("structure", f"the links of {what} inside their heap", f"one at {grouped(offset)}")
        first, _, address = blocks[index]
        yield file.at(address + offset - first, length, f"the links of {what}")


def _heap(file: File, address: int, what: str) -> _Heap:
    o, n = file.offsets, file.lengths
    size = 26 + 12 * n + 3 * o
    head = file.at(address, size, f"the links of {what}")
    if head[:4] != b"FRHP":
        raise Broken("structure", f"the links of {what}", looks(head))
    if int.from_bytes(head[7:9], "little"):
        raise Broken("limit", f"links of {what} without a filter", "filtered ones")
    checksummed(head, f"the links of {what}")
    at = 14 + 10 * n + 2 * o
    width = int.from_bytes(head[at : at + 2], "little")
    start = int.from_bytes(head[at + 2 : at + 2 + n], "little")
    largest = int.from_bytes(head[at + 2 + n : at + 2 + 2 * n], "little")
    at += 2 + 2 * n
    bits = int.from_bytes(head[at : at + 2], "little")
    root = int.from_bytes(head[at + 4 : at + 4 + o], "little")
    rows = int.from_bytes(head[at + 4 + o : at + 6 + o], "little")
    if not width or not 0 < start <= largest <= MAX_BLOCK or start & (start - 1) or bits > 64:
        raise Broken("structure", f"the links of {what}", "a heap that cannot be")
    return _Heap(file, width, start, largest, (bits + 7) // 8, root, rows)


def _blocks(heap: _Heap, what: str) -> Iterator[Tuple[int, int, int]]:
    """(offset in the heap, bytes, address) of every direct block."""
    if heap.file.undefined(heap.root):
        return
    if not heap.rows:
        _signed(heap, heap.root, b"FHDB", what)
        yield 0, heap.start, heap.root
        return
    todo: List[Tuple[int, int, int]] = [(0, heap.root, heap.rows)]
    count = 0
    while todo:
        offset, address, rows = todo.pop()
        _signed(heap, address, b"FHIB", what)
        if rows > 64:
            raise Broken("structure", f"the links of {what}", f"{rows} rows of blocks")
        head = 5 + heap.file.offsets + heap.offsets
        table = heap.file.at(address + head, rows * heap.width * heap.file.offsets, f"the links of {what}")
        for index in range(rows * heap.width):
            row = index // heap.width
            size = heap.start << max(row - 1, 0)
            child = int.from_bytes(table[index * heap.file.offsets : (index + 1) * heap.file.offsets], "little")
            count += 1
            if count > MAX_BLOCKS:
                raise Broken("limit", f"at most {grouped(MAX_BLOCKS)} blocks", "more")
            if not heap.file.undefined(child):
                if size <= heap.largest:
                    _signed(heap, child, b"FHDB", what)
                    yield offset, size, child
                else:
                    inner = size.bit_length() - (heap.start * heap.width).bit_length() + 1
                    todo.append((offset, child, inner))
            offset += size


def _signed(heap: _Heap, address: int, signature: bytes, what: str) -> None:
    found = heap.file.at(address, 4, f"the links of {what}")
    if found != signature:
        raise Broken("structure", f"the links of {what}", looks(found))
