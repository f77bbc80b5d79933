"""Where the bytes of an HDF5 dataset lie: in one piece, or in chunks that one of six kinds of index lists.

A chunk that was never written has no address: it reads as the fill value, and is no damage.
Format: HDF5 File Format Specification 3.0, sections Data Layout Message, Data Structures for Chunk Indexes.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.hdf5_file import File, looks

MAX_CHUNKS = 4_000_000

COMPACT, CONTIGUOUS, CHUNKED = 0, 1, 2
SINGLE, IMPLICIT, FIXED_ARRAY, EXTENSIBLE_ARRAY, TREE = 1, 2, 3, 4, 5
SINGLE_FILTERED = 2


class Chunk(NamedTuple):
    """Some stored bytes of a dataset."""

    offset: int
    """Absolute in the file."""
    length: int
    """As stored, behind the filters."""
    mask: int = 0
    """Filters that were left out, by bit."""
    size: int = 0
    """Before the filters; 0: as `length`."""


class Index(NamedTuple):
    """What a layout message says about its chunks."""

    file: File
    what: str
    address: int
    sizes: Tuple[int, ...]
    """Of a chunk, in elements; the last one is the size of an element."""
    shape: Tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of a whole chunk before filters."""
        product = 1
        for each in self.sizes:
            product *= each
        return product


def stored(file: File, what: str, body: bytes, shape: Tuple[int, ...]) -> Optional[Sequence[Chunk]]:
    """The chunks of a dataset with that layout message, its one piece, or none for data inside the header and for what
    was never written. None: an index of a kind that is not known here.

    Raises:
        Broken: one lies outside the file, or the index is not what it must be.
    """
    version = body[0]
    if version in (1, 2):
        return _oldest(file, what, body)
    kind = body[1]
    if kind == CONTIGUOUS:
        return _piece(file, what, file.number(body, 2, file.offsets), file.number(body, 2 + file.offsets, file.lengths))
    if kind != CHUNKED:
        return () if kind == COMPACT else None
    if version == 3:
        address = file.number(body, 3, file.offsets)
        at = 3 + file.offsets
        sizes = tuple(file.number(body, at + 4 * axis, 4) for axis in range(body[2]))
        found = _first_tree(Index(file, what, address, sizes, shape))
    elif version in (4, 5):
        made = _newer(file, what, body, shape)
        if made is None:
            return None
        found = made
    else:
        return None
    chunks: List[Chunk] = []
    for chunk in found:
        if len(chunks) >= MAX_CHUNKS:
            raise Broken("limit", f"at most {grouped(MAX_CHUNKS)} chunks", f"more in {what}")
        chunks.append(_inside(file, what, chunk))
    return chunks


def _oldest(file: File, what: str, body: bytes) -> Sequence[Chunk]:
    """Layout versions 1 and 2, which say the size of contiguous data in elements only."""
    rank, kind, at = body[1], body[2], 8
    if kind == COMPACT:
        return ()
    address = file.number(body, at, file.offsets)
    at += file.offsets
    if kind == CONTIGUOUS:
        return _piece(file, what, address, 0)
    sizes = tuple(file.number(body, at + 4 * axis, 4) for axis in range(rank))
    return [_inside(file, what, each) for each in _first_tree(Index(file, what, address, sizes, ()))]


def _newer(file: File, what: str, body: bytes, shape: Tuple[int, ...]) -> Optional[Iterator[Chunk]]:
    flags, rank, width = body[2], body[3], body[4]
    sizes = tuple(file.number(body, 5 + width * axis, width) for axis in range(rank))
    at = 5 + width * rank
    kind = body[at]
    at += 1
    if kind == SINGLE:
        length = mask = 0
        if flags & SINGLE_FILTERED:
            length, mask = file.number(body, at, file.lengths), file.number(body, at + file.lengths, 4)
            at += file.lengths + 4
        index = Index(file, what, file.number(body, at, file.offsets), sizes, shape)
        return _single(index, length, mask)
    at += {IMPLICIT: 0, FIXED_ARRAY: 1, EXTENSIBLE_ARRAY: 5, TREE: 6}.get(kind, 0)
    if kind not in (IMPLICIT, FIXED_ARRAY, EXTENSIBLE_ARRAY, TREE):
        return None
    index = Index(file, what, file.number(body, at, file.offsets), sizes, shape)
    if file.undefined(index.address):
        return iter(())
    if kind == IMPLICIT:
        return _implicit(index)
    if kind == TREE:
        return _tree(index)
    from chainwatch.checkpoints.files import hdf5_arrays

    return hdf5_arrays.fixed(index) if kind == FIXED_ARRAY else hdf5_arrays.extensible(index)


def _piece(file: File, what: str, address: int, size: int) -> Sequence[Chunk]:
    return () if file.undefined(address) else (_inside(file, what, Chunk(address, size)),)


def _inside(file: File, what: str, chunk: Chunk) -> Chunk:
    """The chunk at its absolute offset."""
    where = file.base + chunk.offset
    if where + chunk.length > file.end:
        found = f"the file ends at {grouped(file.end)}"
        raise Broken("truncated", f"the data of {what} up to {grouped(where + chunk.length)}", found)
    return chunk._replace(offset=where)


def _single(index: Index, length: int, mask: int) -> Iterator[Chunk]:
    if not index.file.undefined(index.address):
        yield Chunk(index.address, length or index.size, mask, index.size)


def _implicit(index: Index) -> Iterator[Chunk]:
    """Chunks one behind the other, all of them written when the dataset was made."""
    count = 1
    for axis, extent in enumerate(index.shape):
        count *= -(-extent // max(index.sizes[axis], 1))
    if count > MAX_CHUNKS:
        raise Broken("limit", f"at most {grouped(MAX_CHUNKS)} chunks", f"{grouped(count)} in {index.what}")
    for number in range(count):
        yield Chunk(index.address + number * index.size, index.size, 0, index.size)


def _tree(index: Index) -> Iterator[Chunk]:
    """A version 2 B-tree: (address, scaled offsets), with length and mask between where filters were used."""
    from chainwatch.checkpoints.files.hdf5_tree import records

    file = index.file
    filtered = file.at(index.address, 6, f"the chunks of {index.what}")[5] == 11
    for record in records(file, index.address, f"the chunks of {index.what}"):
        address = file.number(record, 0, file.offsets)
        if not filtered:
            yield Chunk(address, index.size, 0, index.size)
            continue
        width = len(record) - file.offsets - 4 - 8 * (len(index.sizes) - 1)
        length = file.number(record, file.offsets, width)
        yield Chunk(address, length, file.number(record, file.offsets + width, 4), index.size)


def _first_tree(index: Index) -> Iterator[Chunk]:
    """A version 1 B-tree, whose keys hold length and mask; its rank counts the element size as one more dimension."""
    file, what = index.file, f"the chunks of {index.what}"
    todo = [] if file.undefined(index.address) else [index.address]
    visited: Set[int] = set()
    while todo:
        where = todo.pop()
        if where in visited:
            raise Broken("structure", what, "a tree that leads back to itself")
        visited.add(where)
        head = file.at(where, 8, what)
        if head[:4] != b"TREE" or head[4] != 1:
            raise Broken("structure", f"{what} at {grouped(file.base + where)}", looks(head))
        count = int.from_bytes(head[6:8], "little")
        key = 8 + 8 * len(index.sizes)
        step = key + file.offsets
        body = file.at(where + 8 + 2 * file.offsets, count * step, what)
        for at in range(0, len(body), step):
            child = file.number(body, at + key, file.offsets)
            if head[5] > 0:
                todo.append(child)
            else:
                yield Chunk(child, file.number(body, at, 4), file.number(body, at + 4, 4), index.size)
