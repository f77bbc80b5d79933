"""The objects of an HDF5 file: groups and datasets, walked from the root, each address checked against the file's end.

Enough of the format to reach every dataset that h5py writes by default (symbol table groups, version 1 headers), and by
newer libraries and `libver="latest"` write (version 2 headers with checksums, links in the header or stored densely).
Format: HDF5 File Format Specification 3.0.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from chainwatch.checkpoints.files.base import Broken, grouped, printable
from chainwatch.checkpoints.files.hdf5_chunks import Chunk, stored
from chainwatch.checkpoints.files.hdf5_file import File, checksummed, looks
from chainwatch.checkpoints.files.hdf5_filters import pipeline

MAX_OBJECTS = 200_000
MAX_NODES = 1_000_000

DATASPACE, LINK_INFO, DATATYPE, LINK, LAYOUT, FILTERS, CONTINUATION, SYMBOLS = 1, 2, 3, 6, 8, 11, 16, 17


class Dataset(NamedTuple):
    """One dataset: what its elements are, and where its bytes lie."""

    name: str
    dtype: str
    """"F16", "BF16", "F32", "F64" for floating point; empty for everything else."""
    width: int
    """Bytes of an element."""
    little: bool
    chunks: Tuple[Chunk, ...]
    """Its stored bytes: one for contiguous data, one a chunk otherwise."""
    filters: Tuple[int, ...]
    """What was done to each chunk, in order (`hdf5_filters`)."""


class _Walk:
    def __init__(self, file: File) -> None:
        self.file = file
        self.seen: Set[int] = set()
        self.nodes = 0
        self.incomplete = False
        """True where something was met that is not followed."""

    def node(self, what: str) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Broken("limit", f"at most {grouped(MAX_NODES)} nodes", f"more, at {what}")


def walk(file: File, root: int) -> Tuple[List[Dataset], bool]:
    """Every dataset below the object header at address `root`; and whether all of them were reached.

    Raises:
        Broken: an address lies outside the file, or what lies there is not what must.
    """
    state = _Walk(file)
    found: List[Dataset] = []
    todo: List[Tuple[int, str]] = [(root, "")]
    while todo:
        address, name = todo.pop()
        if address in state.seen:
            continue
        state.seen.add(address)
        if len(state.seen) > MAX_OBJECTS:
            state.incomplete = True
            break
        messages = _messages(state, address, name or "/")
        if LAYOUT in messages:
            found.append(_dataset(state, name, messages))
        for child, where in _links(state, messages, name):
            todo.append((where, f"{name}/{child}" if name else child))
    return found, not state.incomplete


def _messages(state: _Walk, address: int, name: str) -> Dict[int, List[bytes]]:
    """The messages of one object header, by type, continuation blocks followed."""
    file = state.file
    what = f"the header of {printable(name)}"
    head = file.at(address, 16, what)
    messages: Dict[int, List[bytes]] = {}
    if head[:4] == b"OHDR":
        _version2(state, address, what, messages)
        return messages
    if head[0] != 1 or head[1] != 0:
        raise Broken("structure", f"{what} at {grouped(file.base + address)}", looks(head))
    stated, count = int.from_bytes(head[2:4], "little"), 0
    size = int.from_bytes(head[8:12], "little")
    todo = [(address + 16, size)]
    while todo:
        where, length = todo.pop(0)
        state.node(what)
        if length > 1 << 24:
            raise Broken("structure", f"{what} of less than 16 MB", grouped(length))
        block = file.at(where, length, what)
        at = 0
        while at + 8 <= length:
            kind = int.from_bytes(block[at : at + 2], "little")
            span = int.from_bytes(block[at + 2 : at + 4], "little")
            body = block[at + 8 : at + 8 + span]
            count += 1
            if len(body) < span:
                raise Broken("structure", f"messages inside {what}", "one that runs past it")
            if kind == CONTINUATION:
                todo.append(_pair(file, body, what))
            else:
                messages.setdefault(kind, []).append(body)
            at += 8 + span
    if count != stated:  # a block of zeros would read as many empty messages
        raise Broken("structure", f"{stated} messages in {what}", f"{count}")
    return messages


def _version2(state: _Walk, address: int, what: str, messages: Dict[int, List[bytes]]) -> None:
    file = state.file
    head = file.at(address, 6, what)
    if head[4] != 2:
        raise Broken("structure", f"{what} of version 2", f"version {head[4]}")
    flags = head[5]
    at = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    size = int.from_bytes(file.at(address + at, width, what), "little")
    todo = [(address, at + width, at + width + size + 4)]
    while todo:
        where, start, length = todo.pop(0)
        state.node(what)
        if length > 1 << 24 or length < start + 4:
            raise Broken("structure", f"{what} of less than 16 MB", grouped(length))
        block = file.at(where, length, what)
        if block[:4] not in (b"OHDR", b"OCHK"):
            raise Broken("structure", what, looks(block))
        checksummed(block, what)
        at = start
        header = 4 + (2 if flags & 4 else 0)
        while at + header <= length - 4:
            kind = block[at]
            span = int.from_bytes(block[at + 1 : at + 3], "little")
            body = block[at + header : at + header + span]
            if at + header + span > length - 4:
                raise Broken("structure", f"messages inside {what}", "one that runs past it")
            if kind == CONTINUATION:
                offset, size = _pair(file, body, what)
                todo.append((offset, 4, size))
            else:
                messages.setdefault(kind, []).append(body)
            at += header + span


def _pair(file: File, body: bytes, what: str) -> Tuple[int, int]:
    if len(body) < file.offsets + file.lengths:
        raise Broken("structure", f"a continuation of {what}", f"{len(body)} bytes")
    offset = int.from_bytes(body[: file.offsets], "little")
    return offset, int.from_bytes(body[file.offsets : file.offsets + file.lengths], "little")


def _links(state: _Walk, messages: Dict[int, List[bytes]], name: str) -> Iterator[Tuple[str, int]]:
    """(name, header address) of each member of a group."""
    file = state.file
    for body in messages.get(SYMBOLS, ()):
        tree = int.from_bytes(body[: file.offsets], "little")
        heap = int.from_bytes(body[file.offsets : 2 * file.offsets], "little")
        yield from _symbols(state, tree, _heap(file, heap, name), name)
    for body in messages.get(LINK, ()):
        link = _link(file, body)
        if link is not None:
            yield link
    for body in messages.get(LINK_INFO, ()):
        at = 2 + (8 if len(body) > 1 and body[1] & 1 else 0)
        heap = int.from_bytes(body[at : at + file.offsets], "little")
        tree = int.from_bytes(body[at + file.offsets : at + 2 * file.offsets], "little")
        if not file.undefined(heap):
            from chainwatch.checkpoints.files.hdf5_dense import dense_links

            for each in dense_links(file, heap, tree, printable(name) or "/"):
                state.node(name)
                link = _link(file, each)
                if link is not None:
                    yield link


def _heap(file: File, address: int, name: str) -> bytes:
    what = f"the names in group {printable(name) or '/'}"
    head = file.at(address, 8 + 2 * file.lengths + file.offsets, what)
    if head[:4] != b"HEAP":
        raise Broken("structure", what, looks(head))
    size = int.from_bytes(head[8 : 8 + file.lengths], "little")
    data = int.from_bytes(head[8 + 2 * file.lengths :][: file.offsets], "little")
    if size > 1 << 26:
        raise Broken("structure", f"{what} of less than 64 MB", grouped(size))
    return file.at(data, size, what)


def _symbols(state: _Walk, address: int, heap: bytes, name: str) -> Iterator[Tuple[str, int]]:
    """Members of an old-style group: a B-tree whose leaves are symbol table nodes."""
    file = state.file
    what = f"the members of group {printable(name) or '/'}"
    todo = [address]
    visited: Set[int] = set()
    while todo:
        where = todo.pop()
        if where in visited:
            raise Broken("structure", what, "a tree that leads back to itself")
        visited.add(where)
        state.node(what)
        head = file.at(where, 8, what)
        if head[:4] == b"TREE":
            if head[4] != 0:
                raise Broken("structure", what, "a tree of chunks")
            count = int.from_bytes(head[6:8], "little")
            start = where + 8 + 2 * file.offsets
            step = file.lengths + file.offsets
            body = file.at(start, count * step, what)
            for at in range(file.lengths, len(body), step):
                todo.append(int.from_bytes(body[at : at + file.offsets], "little"))
        elif head[:4] == b"SNOD":
            count = int.from_bytes(head[6:8], "little")
            step = 2 * file.offsets + 24
            body = file.at(where + 8, count * step, what)
            for at in range(0, len(body), step):
                offset = int.from_bytes(body[at : at + file.offsets], "little")
                target = int.from_bytes(body[at + file.offsets : at + 2 * file.offsets], "little")
                kind = int.from_bytes(body[at + 2 * file.offsets :][:4], "little")
                end = heap.find(b"\0", offset)
                if offset >= len(heap) or end < 0:
                    raise Broken("structure", what, "a name that lies outside the group's names")
                if kind != 2:  # a symbolic link has no header
                    yield heap[offset:end].decode("utf-8", "backslashreplace"), target
        else:
            raise Broken("structure", f"{what} at {grouped(file.base + where)}", looks(head))


def _link(file: File, body: bytes) -> Optional[Tuple[str, int]]:
    """A link message; None for soft and external links."""
    flags = body[1]
    at = 2
    kind = 0
    if flags & 8:
        kind = body[at]
        at += 1
    at += (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
    width = 1 << (flags & 3)
    length = int.from_bytes(body[at : at + width], "little")
    at += width
    name = body[at : at + length]
    at += length
    if kind != 0 or len(body) < at + file.offsets:
        return None
    return name.decode("utf-8", "backslashreplace"), int.from_bytes(body[at : at + file.offsets], "little")


def _dataset(state: _Walk, name: str, messages: Dict[int, List[bytes]]) -> Dataset:
    what = f"dataset {printable(name)}"
    width, dtype, little = _floating(messages.get(DATATYPE, [b""])[0])
    filters = pipeline(messages[FILTERS][0]) if FILTERS in messages else ()
    shape = _shape(state.file, messages.get(DATASPACE, [b""])[0])
    chunks = stored(state.file, what, messages[LAYOUT][0], shape)
    if chunks is None:
        state.incomplete = True
    return Dataset(name, dtype, width, little, tuple(chunks or ()), filters)


def _shape(file: File, body: bytes) -> Tuple[int, ...]:
    """The sizes of a simple dataspace; () for a scalar or none."""
    if len(body) < 4:
        return ()
    start = 8 if body[0] == 1 else 4
    return tuple(file.number(body, start + axis * file.lengths, file.lengths) for axis in range(body[1]))


def _floating(body: bytes) -> Tuple[int, str, bool]:
    """(bytes of an element, type, little-endian); the type is empty for what is no floating point number."""
    size = int.from_bytes(body[4:8], "little")
    if len(body) < 20 or body[0] & 15 != 1:
        return size, "", True
    exponent = body[13]
    dtype = {(2, 5): "F16", (2, 8): "BF16", (4, 8): "F32", (8, 11): "F64"}.get((size, exponent), "")
    return size, dtype, not body[1] & 1
