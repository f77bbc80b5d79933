"""The structure of a ZIP file, read from its end: directory, local headers, and (deep) the CRC of each record.

Rules from the ZIP specification (PKWARE APPNOTE), as torch.save, numpy and Keras write it: zip64, data descriptors,
alignment padding in the extra field of the local header.
"""

from __future__ import annotations

import struct

from chainwatch.checkpoints.files.base import Broken, Fault, Reader, grouped, printable
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

MAX_DIRECTORY = 128 << 20
"""Bytes of a central directory; a million records need some 100 MB."""
MAX_INFLATED = 4 << 30
"""Bytes that a deep check inflates beyond 20 times the file: a zip bomb is not blown up to the end."""
PIECE = 64 << 20
"""A larger record is read in pieces of this size by several threads, where the library can join their CRCs."""
STORED, DEFLATED = 0, 8

_EOCD = struct.Struct("<4s4H2LH")
_EOCD64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")


class Record(NamedTuple):
    """One file inside the zip."""

    name: str
    offset: int
    """Of its local header."""
    start: int
    """Of its data."""
    compressed: int
    size: int
    crc: int
    method: int


class Zip(NamedTuple):
    """A zip whose directory and local headers agree with each other and with the size of the file."""

    records: List[Record]
    no_crc: bool
    """True where every stored CRC is 0: the writer was told to leave them out."""

    def named(self) -> Dict[str, Record]:
        return {record.name: record for record in self.records}


def read_zip(reader: Reader, start: int = 0, end: Optional[int] = None) -> Zip:
    """Read and cross-check the whole structure of the zip that fills `start`..`end` of the file.

    Raises:
        Broken: the directory is missing (a cut file), or any header is not where and what the directory says.
    """
    end = reader.size if end is None else end
    count, offset, size, directory_end = _find_directory(reader, start, end)
    if size > MAX_DIRECTORY:
        raise Broken("limit", f"a zip directory of at most {grouped(MAX_DIRECTORY)} bytes", f"{grouped(size)} bytes")
    if size < count * 46:
        raise Broken("structure", f"a zip directory of {grouped(count)} records", f"{grouped(size)} bytes for it")
    if start + offset + size != directory_end:
        raise Broken(
            "structure",
            f"zip directory at {grouped(start + offset)} to end at {grouped(directory_end)}",
            f"it ends at {grouped(start + offset + size)}",
        )
    entries = _entries(reader.read(start + offset, size), count, start)
    entries.sort(key=_by_offset)
    records: List[Record] = []
    limit = len(entries)
    directory = start + offset
    no_crc = True
    for index in range(limit):
        name, raw, where, compressed, full, crc, method, flags = entries[index]
        following = entries[index + 1][2] if index + 1 < limit else directory
        head = reader.read(where, 30 + len(raw)) if where + 30 + len(raw) <= following else b""
        if head[:4] != b"PK\x03\x04":
            zeros = not any(head)
            raise Broken(
                "structure",
                f"header of record {printable(name)} at {grouped(where)}",
                "zeros" if head and zeros else "other bytes",
            )
        if head[30:] != raw:
            raise Broken("structure", f"record {printable(name)} at {grouped(where)}", "a header of another name")
        fields = _LOCAL.unpack_from(head)
        data = where + 30 + fields[9] + fields[10]
        if data + compressed > following:
            raise Broken(
                "structure",
                f"record {printable(name)} to end before {grouped(following)}",
                f"it ends at {grouped(data + compressed)}",
            )
        if fields[3] != method or (not flags & 8 and (fields[6] != crc or fields[8] not in (full, 0xFFFFFFFF))):
            raise Broken("structure", f"record {printable(name)} as the directory has it", "a header that disagrees")
        if crc and full:
            no_crc = False
        records.append(Record(name, where, data, compressed, full, crc, method))
    return Zip(records, no_crc and any(record.size for record in records))


def start_of_zip(reader: Reader, end: int) -> int:
    """Where the zip begins that ends at `end`, for zips that lie one after another.

    Raises:
        Broken: there is no zip directory before `end`.
    """
    low = max(0, end - 22 - 20 - 56)
    tail = reader.read(low, end - low)
    if len(tail) < 22 or tail[-22:-18] != b"PK\x05\x06":
        raise Broken("truncated", f"a zip directory before {grouped(end)}", _no_directory(not any(tail)))
    fields = _EOCD.unpack_from(tail, len(tail) - 22)
    size, offset, directory_end = fields[5], fields[6], end - 22
    if tail[-42:-38] == b"PK\x06\x07" and len(tail) == 98 and tail[:4] == b"PK\x06\x06":
        end64 = _EOCD64.unpack_from(tail)
        _agree(fields, end64)
        size, offset, directory_end = end64[8], end64[9], low
    start: int = directory_end - size - offset
    if start < 0:
        raise Broken("structure", f"a zip that ends at {grouped(end)}", "one that would begin before the file")
    return start


def _by_offset(entry: Tuple[str, bytes, int, int, int, int, int, int]) -> int:
    return entry[2]


def _find_directory(reader: Reader, start: int, end: int) -> Tuple[int, int, int, int]:
    """(records, offset of the directory relative to `start`, its size, absolute offset of its end)."""
    where = end - 22
    tail = reader.read(where, 22) if where >= start else b""
    if tail[:4] != b"PK\x05\x06" or tail[20:] != b"\0\0":
        # A comment may follow the end record; torch and numpy never write one, so this is a foreign zip or a cut one.
        low = max(start, end - 22 - 65535)
        tail = reader.read(low, end - low)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < 22 or low + at + 22 + _EOCD.unpack_from(tail, at)[7] != end:
            zeros = bool(tail) and not any(tail[-4096:])
            raise Broken("truncated", "a zip directory at the end", _no_directory(zeros))
        where, tail = low + at, tail[at : at + 22]
    fields = _EOCD.unpack_from(tail)
    count, size, offset, directory_end = fields[4], fields[5], fields[6], where
    if where - 20 >= start:
        locator = reader.read(where - 20, 20)
        if locator[:4] == b"PK\x06\x07":
            at = start + _LOCATOR.unpack(locator)[2]
            if at + 56 > where - 20:
                raise Broken("structure", "a zip64 end record", f"its locator points to {grouped(at)}")
            end64 = _EOCD64.unpack(reader.read(at, 56))
            if end64[0] != b"PK\x06\x06":
                raise Broken("structure", f"a zip64 end record at {grouped(at)}", "other bytes")
            _agree(fields, end64)
            count, size, offset, directory_end = end64[7], end64[8], end64[9], at
        elif 0xFFFFFFFF in (size, offset) or count == 0xFFFF:
            raise Broken("structure", "a zip64 locator", "other bytes")
    return count, offset, size, directory_end


def _agree(short: Tuple[int, ...], long: Tuple[int, ...]) -> None:
    """The end record has what the zip64 one has, or marks that it does not fit."""
    for small, large, mark in ((4, 7, 0xFFFF), (5, 8, 0xFFFFFFFF), (6, 9, 0xFFFFFFFF)):
        if short[small] not in (long[large], mark):
            raise Broken(
                "structure", "two end records that agree", f"{grouped(short[small])} and {grouped(long[large])}"
            )


def _no_directory(zeros: bool) -> str:
    return "zeros at the end, zip directory missing" if zeros else "zip directory missing"


def _entries(data: bytes, count: int, start: int) -> List[Tuple[str, bytes, int, int, int, int, int, int]]:
    found: List[Tuple[str, bytes, int, int, int, int, int, int]] = []
    at = 0
    unpack = _ENTRY.unpack_from
    for _ in range(count):
        if len(data) - at < 46:
            raise Broken("structure", f"{grouped(count)} records in the zip directory", f"{grouped(len(found))}")
        fields = unpack(data, at)
        if fields[0] != b"PK\x01\x02":
            raise Broken("structure", "a record of the zip directory", "other bytes")
        flags, method, crc, compressed, size = fields[5], fields[6], fields[9], fields[10], fields[11]
        names, extra, offset = fields[12], fields[13], fields[18]
        raw = data[at + 46 : at + 46 + names]
        if size == 0xFFFFFFFF or compressed == 0xFFFFFFFF or offset == 0xFFFFFFFF:
            size, compressed, offset = _zip64(data[at + 46 + names : at + 46 + names + extra], size, compressed, offset)
        name = raw.decode("utf-8" if flags & 0x800 else "cp437", "replace")
        found.append((name, raw, start + offset, compressed, size, crc, method, flags))
        at += 46 + names + extra + fields[14]
    if at != len(data):
        raise Broken("structure", f"a zip directory of {grouped(len(data))} bytes", f"records up to {grouped(at)}")
    return found


def _zip64(extra: bytes, size: int, compressed: int, offset: int) -> Tuple[int, int, int]:
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        if tag == 1:
            values = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            values.reverse()
            size = values.pop() if size == 0xFFFFFFFF and values else size
            compressed = values.pop() if compressed == 0xFFFFFFFF and values else compressed
            offset = values.pop() if offset == 0xFFFFFFFF and values else offset
            break
        at += 4 + length
    return size, compressed, offset


def verify_records(reader: Reader, archive: Zip) -> Tuple[List[Fault], bool]:
    """Read all data and verify each CRC; (faults, whether the CRCs covered everything)."""
    from chainwatch.checkpoints.files.checksums import crc32, crc32_combine, in_threads

    if archive.no_crc:
        for record in archive.records:
            for _ in reader.blocks(record.start, record.compressed):
                pass
        return [], False
    bound = 20 * reader.size + MAX_INFLATED
    covered = sum(record.size for record in archive.records) <= bound

    combine = crc32_combine()
    pieces: List[Tuple[Record, int, int]] = []
    for record in archive.records:
        step = PIECE if combine is not None and record.method == STORED else max(record.compressed, 1)
        pieces.extend((record, at, min(step, record.compressed - at)) for at in range(0, record.compressed or 1, step))

    def one(piece: Tuple[Record, int, int]) -> Tuple[int, int]:
        """(CRC, bytes) of one piece."""
        record, at, length = piece
        if record.method == STORED:
            return crc32(reader.blocks(record.start + at, length)), length
        return _inflated(reader, record) if record.method == DEFLATED and covered else (record.crc, record.size)

    values: Dict[int, Tuple[int, int]] = {}
    for (record, _, _), (value, length) in zip(pieces, in_threads(one, pieces)):
        before = values.get(record.offset)
        if before is not None and combine is not None:
            value, length = combine(before[0], value, length), before[1] + length
        values[record.offset] = (value, length)
    faults = [fault for fault in (_compare(record, *values[record.offset]) for record in archive.records) if fault]
    return faults, covered and all(record.method in (STORED, DEFLATED) for record in archive.records)


def _compare(record: Record, value: int, length: int) -> Optional[Fault]:
    name = printable(record.name)
    if length != record.size:
        return Fault("structure", f"{grouped(record.size)} bytes in record {name}", grouped(length))
    if value != record.crc:
        return Fault("checksum", f"CRC {record.crc:08x} of record {name}", f"its bytes give {value:08x}")
    return None


def _inflated(reader: Reader, record: Record) -> Tuple[int, int]:
    """CRC and length of a deflated record, stopped as soon as it is longer than it says."""
    import zlib

    machine = zlib.decompressobj(-15)
    value = length = 0
    for block in reader.blocks(record.start, record.compressed):
        pending = bytes(block)
        while pending:
            try:
                data = machine.decompress(pending, 1 << 20)
            except zlib.error:
                raise Broken("structure", f"deflated record {printable(record.name)}", "it does not inflate") from None
            value = zlib.crc32(data, value)
            length += len(data)
            pending = machine.unconsumed_tail
            if length > record.size or not (data or pending):
                break
        if length > record.size:
            break
    if length <= record.size and not machine.eof:
        raise Broken("truncated", f"deflated record {printable(record.name)}", "it ends too early")
    return value, length
