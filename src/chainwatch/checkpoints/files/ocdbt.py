"""OCDBT: tensorstore's B+tree of keys and values in files, as Orbax writes it.

Every node carries its length and a CRC-32C, so the tree itself is always fully checked. The tree says which data files
are needed and how far each must reach, so that a cut is found at any byte without reading a value. Nodes are
zstd-compressed as a rule: without a decoder the data files are walked frame by frame instead, which finds cuts as well
but not a missing file.

Format: the tensorstore manual, "ocdbt kvstore driver", section Storage format; seen on files by tensorstore 0.1.86.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files import zstd
from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.checksums import crc32c

MANIFEST = b"\x0c\xdb\x3a\x2a"
BTREE = b"\x0c\xdb\x20\xde"
VERSIONS = b"\x0c\xdb\x12\x34"
MISSING = (1 << 64) - 1
NODE_LIMIT = 64 << 20
"""Bytes of one node, decoded; tensorstore's default maximum is 8 MiB, a raised one is rarely above 16."""
ENTRY_LIMIT = 5_000_000


class Span(NamedTuple):
    """A stretch of a data file."""

    file: str
    """Path relative to the directory of the manifest."""
    offset: int
    length: int
    base: str = ""
    """The part of the path that also applies to whatever this node refers to."""


class Manifest(NamedTuple):
    """The newest version that a manifest names."""

    root: Optional[Span]
    """The B+tree's root node; None for an empty database."""
    height: int
    history: Tuple[Span, ...] = ()
    """Root nodes of the older versions that this manifest still names: not read on a restore, but written once."""
    numbered: bool = False
    """True where this file only configures the database and `manifest.<hex>` files hold the versions."""


class Entry(NamedTuple):
    """One key: its value's place, or the value itself where it is small."""

    key: bytes
    span: Optional[Span]
    value: bytes


class Node(NamedTuple):
    """One decoded B+tree node: children of an interior node, entries of a leaf."""

    children: List[Span]
    prefixes: List[bytes]
    """For each child, the bytes that all keys below it begin with."""
    entries: List[Entry]


def check(reader: Reader, deep: bool) -> Finding:
    """One file on its own: a manifest, or a data file that begins with a node."""
    if reader.name.startswith("manifest.") or reader.read(0, min(4, reader.size)) == MANIFEST:
        payload(reader.read(0, reader.size), MANIFEST)
    else:
        length = walk(reader, deep)
        if length is not None and length < reader.size:
            return Finding("ocdbt", warnings=(f"bytes from {grouped(length)} on were not checked",))
    return Finding("ocdbt")


def payload(block: bytes, magic: bytes) -> Optional[bytes]:
    """The body of a node, its length and checksum verified; None where it is compressed and no decoder is installed."""
    name = {MANIFEST: "manifest", BTREE: "B+tree node", VERSIONS: "version tree node"}[magic]
    if len(block) < 18 or block[:4] != magic:
        found = "zeros" if not any(block[:4]) else f"0x{block[:4].hex()}"
        raise Broken("structure" if len(block) >= 4 else "truncated", f"an OCDBT {name}", found)
    length = int.from_bytes(block[4:12], "little")
    if length != len(block):
        code = "truncated" if length > len(block) else "structure"
        raise Broken(code, f"{grouped(length)} bytes, as the {name} says", f"{grouped(len(block))} bytes")
    if crc32c([memoryview(block)[:-4]]) != int.from_bytes(block[-4:], "little"):
        raise Broken("checksum", f"the CRC-32C of the {name}", "another")
    fields = _Fields(block[12:-4])
    version, compression = fields.varint(), fields.varint()
    if version != 0 or compression > 1:
        raise Broken("structure", "OCDBT format version 0", f"version {version}, compression {compression}")
    body = fields.rest()
    return body if compression == 0 else zstd.decode(body, NODE_LIMIT)


def manifest(body: bytes) -> Manifest:
    """The newest version in a manifest's body."""
    fields = _Fields(body)
    fields.take(16)  # uuid
    kind = fields.varint()
    fields.varint()  # max_inline_value_bytes
    fields.varint()  # max_decoded_node_bytes
    fields.byte()  # version_tree_arity_log2
    if fields.varint() == 1:
        fields.take(4)  # zstd level
    if kind == 1:
        return Manifest(None, 0, numbered=True)
    files = _file_table(fields, "")
    count = fields.count()
    fields.varints(count)  # generations
    heights = fields.take(count)
    spans = _spans(fields, files, count)
    if not count:
        raise Broken("structure", "a version in the manifest", "none")
    return Manifest(spans[-1], heights[-1], tuple(span for span in spans[:-1] if span is not None))


def node(body: bytes, base: str, prefix: bytes, height: int) -> Node:
    """Decode a B+tree node that was reached by a path with this base and this key prefix."""
    fields = _Fields(body)
    if fields.byte() != height:
        raise Broken("structure", f"a B+tree node of height {height}", f"height {body[0]}")
    files = _file_table(fields, base)
    count = fields.count()
    shared = [0, *fields.varints(count - 1)] if count else []
    suffixes = fields.varints(count)
    common = fields.varints(count) if height else []
    keys: List[bytes] = []
    previous = b""
    for keep, length in zip(shared, suffixes):
        if keep > len(previous):
            raise Broken("structure", "keys in order in a B+tree node", "a prefix longer than the key before it")
        previous = previous[:keep] + fields.take(length)
        keys.append(previous)
    if height:
        spans = _spans(fields, files, count)
        if None in spans:
            raise Broken("structure", "a child in each entry of an interior node", "none")
        children = [span for span in spans if span is not None]
        return Node(children, [prefix + key[:length] for key, length in zip(keys, common)], [])
    lengths = fields.varints(count)
    kinds = fields.take(count)
    outside = [at for at, kind in enumerate(kinds) if kind == 1]
    ids, offsets = fields.varints(len(outside)), fields.varints(len(outside))
    where: Dict[int, Span] = {}
    for at, number, offset in zip(outside, ids, offsets):
        file, path = _at(files, number)
        where[at] = Span(file, offset, lengths[at], path)
    entries = []
    for at, key in enumerate(keys):
        span = where.get(at)
        entries.append(Entry(prefix + key, span, b"" if span else fields.take(lengths[at])))
    return Node([], [], entries)


def walk(reader: Reader, deep: bool) -> Optional[int]:
    """Walk a data file from its start: nodes and zstd frames one behind the other.

    Returns:
        The offset of the first byte that is neither (an uncompressed value); None where the walk reached the end.
    """
    offset = 0
    while offset < reader.size:
        head = reader.read(offset, min(12, reader.size - offset))
        if head[:4] in (BTREE, VERSIONS):
            length = int.from_bytes(head[4:12], "little") if len(head) == 12 else MISSING
            if offset + length > reader.size:
                raise Broken(
                    "truncated", f"the whole node at byte {grouped(offset)}", f"ends at {grouped(reader.size)}"
                )
            payload(reader.read(offset, length), head[:4])
            offset += max(length, 1)
        elif len(head) >= 4 and zstd.is_frame(head):
            offset = zstd.walk(reader.read, offset, reader.size).end
        else:
            return offset
    return None


class _Fields:
    """The columns of a node's body, read one after another; running past the end is a broken node."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise Broken("structure", "a whole OCDBT node", "its body ends early")
        part = self.data[self.at : end]
        self.at = end
        return part

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise Broken("structure", "a varint of at most 64 bits", "a longer one")

    def varints(self, count: int) -> List[int]:
        if count > len(self.data) - self.at:
            raise Broken("structure", "a whole OCDBT node", "its body ends early")
        return [self.varint() for _ in range(count)]

    def count(self) -> int:
        """A number of entries, each of which takes at least one byte."""
        value = self.varint()
        if value > len(self.data) - self.at:
            raise Broken(
                "structure", "a whole OCDBT node", f"{grouped(value)} entries claimed in {len(self.data)} bytes"
            )
        return value

    def rest(self) -> bytes:
        return self.data[self.at :]


def _file_table(fields: _Fields, base: str) -> List[Tuple[str, str]]:
    """(path, base path) of each data file, both relative to the manifest's directory."""
    count = fields.count()
    shared = [0, *fields.varints(count - 1)] if count else []
    suffixes = fields.varints(count)
    bases = fields.varints(count)
    table: List[Tuple[str, str]] = []
    previous = b""
    for keep, length, own in zip(shared, suffixes, bases):
        previous = previous[:keep] + fields.take(length)
        if len(previous) > 65535:
            raise Broken("structure", "paths of at most 65,535 bytes", f"{grouped(len(previous))} bytes")
        text = previous.decode("utf-8", "surrogateescape")
        table.append((base + text, base + previous[:own].decode("utf-8", "surrogateescape")))
    return table


def _at(files: List[Tuple[str, str]], number: int) -> Tuple[str, str]:
    if number >= len(files):
        raise Broken("structure", f"a data file below {len(files)}", f"number {number}")
    return files[number]


def _spans(fields: _Fields, files: List[Tuple[str, str]], count: int) -> List[Optional[Span]]:
    """References to nodes (None: missing), with the statistics that follow them skipped."""
    ids, offsets, lengths = fields.varints(count), fields.varints(count), fields.varints(count)
    spans: List[Optional[Span]] = []
    for number, offset, length in zip(ids, offsets, lengths):
        if offset == MISSING and length == MISSING:
            spans.append(None)
            continue
        file, path = _at(files, number)
        spans.append(Span(file, offset, length, path))
    return spans


Fetch = Callable[[Span], bytes]


def entries(read: Fetch, root: Manifest, seen: Callable[[Span], None]) -> "List[Entry]":
    """Every key of the tree, its nodes read with `read`; `seen` is told of every node's and value's place.

    Raises:
        Broken: where a node is broken, or cannot be decoded for want of zstd (code `unchecked`).
    """
    found: List[Entry] = []
    if root.root is None:
        return found
    todo = [(root.root, b"", root.height)]
    while todo:
        span, prefix, height = todo.pop()
        seen(span)
        body = payload(read(span), BTREE)
        if body is None:
            raise Broken("unchecked", "a zstd decoder", "none is installed")
        part = node(body, span.base, prefix, height)
        todo.extend((child, start, height - 1) for child, start in zip(part.children, part.prefixes))
        for entry in part.entries:
            if entry.span is not None:
                seen(entry.span)
        found.extend(part.entries)
        if len(found) + len(todo) > ENTRY_LIMIT:
            raise Broken("limit", f"at most {grouped(ENTRY_LIMIT)} keys", "more")
    return found
