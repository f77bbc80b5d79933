"""Version 2 B-trees of HDF5: the records of a densely stored group, or of a dataset's chunks.

Format: HDF5 File Format Specification 3.0, section Version 2 B-trees.
"""

from __future__ import annotations

from typing import Iterator

from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.hdf5_file import File, checksummed, looks

PREFIX = 10
"""Bytes of a B-tree node that are no records: signature, version, type, checksum."""
MAX_NODES = 1_000_000
MAX_NODE = 1 << 26


def records(file: File, address: int, title: str) -> Iterator[bytes]:
    """Every record of a version 2 B-tree, each node's checksum verified."""
    o, n = file.offsets, file.lengths
    head = file.at(address, 22 + o + n, title)
    if head[:4] != b"BTHD":
        raise Broken("structure", title, looks(head))
    checksummed(head, title)
    node_size = int.from_bytes(head[6:10], "little")
    record = int.from_bytes(head[10:12], "little")
    depth = int.from_bytes(head[12:14], "little")
    root = int.from_bytes(head[16 : 16 + o], "little")
    count = int.from_bytes(head[16 + o : 18 + o], "little")
    if record < 5 or depth > 16 or not PREFIX + record <= node_size <= MAX_NODE:
        raise Broken("structure", title, "a tree that cannot be")
    most = (node_size - PREFIX) // record
    narrow = _width(most)
    totals, pointers, total = [0], [0], most
    for _ in range(depth):
        pointer = o + narrow + totals[-1]
        held = max((node_size - PREFIX - pointer) // (record + pointer), 0)
        total = (held + 1) * total + held
        totals.append(_width(total))
        pointers.append(pointer)
    todo = [(root, count, depth)] if count else []
    visited = 0
    while todo:
        where, held, level = todo.pop()
        visited += 1
        if visited > MAX_NODES:
            raise Broken("limit", f"at most {grouped(MAX_NODES)} nodes", "more")
        length = 6 + held * record + (held + 1) * pointers[level] * bool(level) + 4
        if length > node_size:
            raise Broken("structure", title, f"{held} records in a node of {grouped(node_size)} bytes")
        block = file.at(where, length, title)
        if block[:4] != (b"BTIN" if level else b"BTLF"):
            raise Broken("structure", title, looks(block))
        checksummed(block, title)
        for index in range(held):
            yield block[6 + index * record : 6 + (index + 1) * record]
        at = 6 + held * record
        for _ in range(held + 1 if level else 0):
            child = int.from_bytes(block[at : at + o], "little")
            todo.append((child, int.from_bytes(block[at + o : at + o + narrow], "little"), level - 1))
            at += pointers[level]


def _width(limit: int) -> int:
    """Bytes that a number up to `limit` is written in."""
    return (max(limit, 1).bit_length() - 1) // 8 + 1
