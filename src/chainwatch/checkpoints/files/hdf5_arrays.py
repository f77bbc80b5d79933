"""Chunk indexes of HDF5 that are arrays: fixed (no dimension may grow) and extensible (one may).

Each block carries a checksum. An element is an address, with the stored length and the filter mask behind it where
filters are used. Format: HDF5 File Format Specification 3.0, sections Fixed Array Index, Extensible Array Index.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.hdf5_chunks import MAX_CHUNKS, Chunk, Index
from chainwatch.checkpoints.files.hdf5_file import checksummed, looks

MAX_BITS = 40


class _Elements(NamedTuple):
    """How the elements of one array are stored."""

    chunks: Index
    width: int
    """Bytes of an element."""
    filtered: bool
    page: int
    """Elements of a page; a block with more is split into pages, each with a checksum of its own."""
    offset: int = 0
    """Bytes of a block's own offset, which extensible arrays have behind the address of the header."""

    def of(self, data: bytes) -> Iterator[Chunk]:
        """The chunks in some elements; those that were never written are left out."""
        file = self.chunks.file
        for at in range(0, len(data) - self.width + 1, self.width):
            address = file.number(data, at, file.offsets)
            if file.undefined(address):
                continue
            if self.filtered:
                length = file.number(data, at + file.offsets, self.width - file.offsets - 4)
                mask = file.number(data, at + self.width - 4, 4)
                yield Chunk(address, length, mask, self.chunks.size)
            else:
                yield Chunk(address, self.chunks.size, 0, self.chunks.size)

    def block(self, signature: bytes, address: int, length: int) -> bytes:
        """A block with its signature and its checksum verified."""
        what = f"the chunks of {self.chunks.what}"
        if length > 1 << 28:
            raise Broken("limit", f"{what} in blocks of less than 256 MB", grouped(length))
        data = self.chunks.file.at(address, length, what)
        if data[: len(signature)] != signature:
            raise Broken("structure", f"{what} at {grouped(self.chunks.file.base + address)}", looks(data[:64]))
        checksummed(data, what)
        return data

    @property
    def prefix(self) -> int:
        """Bytes before the elements of a data block: signature, version, client, address of the header, own offset."""
        return 6 + self.chunks.file.offsets + self.offset


def _head(index: Index, signature: bytes, length: int) -> bytes:
    what = f"the chunks of {index.what}"
    head = index.file.at(index.address, length, what)
    if head[:4] != signature:
        raise Broken("structure", what, looks(head))
    checksummed(head, what)
    return head


def fixed(index: Index) -> Iterator[Chunk]:
    """The chunks of a fixed array."""
    file = index.file
    head = _head(index, b"FAHD", 8 + file.lengths + file.offsets + 4)
    count = file.number(head, 8, file.lengths)
    block = file.number(head, 8 + file.lengths, file.offsets)
    _sane(index, count, head[6], head[7])
    elements = _Elements(index, head[6], head[5] == 1, 1 << head[7])
    if file.undefined(block):
        return
    if count <= elements.page:
        data = elements.block(b"FADB", block, elements.prefix + count * elements.width + 4)
        yield from elements.of(data[elements.prefix : -4])
        return
    pages = -(-count // elements.page)
    bitmap = (pages + 7) // 8
    data = elements.block(b"FADB", block, elements.prefix + bitmap + 4)
    yield from _pages(elements, data[elements.prefix : -4], block + len(data), count)


def _pages(elements: _Elements, written: bytes, address: int, count: int, bit: int = 0) -> Iterator[Chunk]:
    """Elements in pages, one behind the other; `written` has a bit, the highest first and from `bit` on, for each that
    holds anything."""
    for page in range(-(-count // elements.page)):
        held = min(elements.page, count - page * elements.page)
        length = held * elements.width + 4
        if written[(bit + page) // 8] & 0x80 >> (bit + page) % 8:
            yield from elements.of(elements.block(b"", address, length)[:-4])
        address += elements.page * elements.width + 4


def extensible(index: Index) -> Iterator[Chunk]:
    """The chunks of an extensible array: elements and addresses of blocks in an index block, which double in size."""
    file = index.file
    o, n = file.offsets, file.lengths
    head = _head(index, b"EAHD", 12 + 6 * n + o + 4)
    width, bits, first, least, pointers, page_bits = head[6:12]
    realised = file.number(head, 12 + 5 * n, n)
    place = file.number(head, 12 + 6 * n, o)
    _sane(index, realised, width, page_bits if bits <= 64 else bits)
    if file.undefined(place):
        return
    if not least or least & (least - 1) or not pointers or pointers & (pointers - 1):
        raise Broken("structure", f"the chunks of {index.what}", "an array that cannot be")
    elements = _Elements(index, width, head[5] == 1, 1 << page_bits, (bits + 7) // 8)
    supers = 1 + bits - (least.bit_length() - 1)
    direct = 2 * (pointers.bit_length() - 1)
    in_index = 2 * (pointers - 1)
    start = 6 + o
    length = start + first * width + (in_index + max(supers - direct, 0)) * o + 4
    block = elements.block(b"EAIB", place, length)
    yield from elements.of(block[start : start + first * width])
    at = start + first * width
    for number in range(supers):
        blocks, held = 1 << number // 2, (1 << (number + 1) // 2) * least
        if number < direct:
            for _ in range(blocks):
                yield from _data_block(elements, file.number(block, at, o), held, b"", 0)
                at += o
        else:
            yield from _super_block(elements, file.number(block, at, o), blocks, held)
            at += o


def _super_block(elements: _Elements, address: int, blocks: int, held: int) -> Iterator[Chunk]:
    file = elements.chunks.file
    if file.undefined(address):
        return
    pages = held // elements.page if held > elements.page else 0
    bitmap = blocks * ((pages + 7) // 8)
    data = elements.block(b"EASB", address, elements.prefix + bitmap + blocks * file.offsets + 4)
    written = data[elements.prefix : elements.prefix + bitmap]
    for number in range(blocks):
        where = file.number(data, elements.prefix + bitmap + number * file.offsets, file.offsets)
        yield from _data_block(elements, where, held, written, number * pages)


def _data_block(elements: _Elements, address: int, held: int, written: bytes, bit: int) -> Iterator[Chunk]:
    if elements.chunks.file.undefined(address):
        return
    if held <= elements.page:
        data = elements.block(b"EADB", address, elements.prefix + held * elements.width + 4)
        yield from elements.of(data[elements.prefix : -4])
    else:
        elements.block(b"EADB", address, elements.prefix + 4)
        yield from _pages(elements, written, address + elements.prefix + 4, held, bit)


def _sane(index: Index, count: int, width: int, page_bits: int) -> None:
    if count > MAX_CHUNKS:
        raise Broken("limit", f"at most {grouped(MAX_CHUNKS)} chunks", f"{grouped(count)} in {index.what}")
    if width < index.file.offsets or page_bits > MAX_BITS:
        raise Broken("structure", f"the chunks of {index.what}", "an array that cannot be")
