"""numpy's `.npy` and `.npz`: every header states a shape, and the bytes must account for it.

Formats: numpy/lib/format.py (versions 1 to 3), and zip for `.npz`, each member of which is one `.npy`.
"""

from __future__ import annotations

import re
import zlib
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped, printable
from chainwatch.checkpoints.files.zeros import lost_tail
from chainwatch.checkpoints.files.zips import DEFLATED, STORED, Record, read_zip, verify_records
from chainwatch.checkpoints.patterns import Pattern

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 20
"""Bytes of a header: a structured dtype with thousands of fields fits."""

_SHAPE = Pattern(r"'shape'\s*:\s*\(([\d\sL,]*)\)")
_DESCR = Pattern(r"'descr'\s*:\s*'([<>=|]?)([?a-zA-Z])(\d{0,9})(?:\[[^\]]*\])?'")

Read = Callable[[int, int], bytes]


class Header(NamedTuple):
    """What the head of one `.npy` says."""

    descr: str
    """Type character and width ("f4", "V2"); empty for structured dtypes."""
    little: bool
    shape: Tuple[int, ...]
    data: int
    """Bytes of the header: the data begin there."""
    size: Optional[int]
    """Bytes of data; None where the dtype does not tell (Python objects, which are pickled)."""


class Array(NamedTuple):
    """One array and where its bytes are."""

    name: str
    header: Header
    start: int
    """Offset of its data in the file; of the member's compressed bytes where it is deflated."""
    record: Optional[Record]


def check(reader: Reader, deep: bool) -> Finding:
    """A `.npy` or `.npz`, told apart by the first bytes (and by the name, where these are gone)."""
    if reader.read(0, min(6, reader.size)) == MAGIC or reader.name.endswith(".npy"):
        return _npy(reader, deep)
    archive = read_zip(reader)
    members = 0
    for record in archive.records:
        if record.name.endswith(".npy"):
            members += 1
            header = member_header(reader, record)
            if header.size is not None and header.data + header.size != record.size:
                raise Broken(
                    "structure",
                    f"{grouped(header.data + header.size)} bytes in {printable(record.name)}, as its shape says",
                    grouped(record.size),
                )
    if not members:
        raise Broken("structure", "arrays in the .npz", "no .npy in it")
    faults, covered = verify_records(reader, archive) if deep else ([], True)
    return Finding("npz", tuple(faults), checksummed=covered and not archive.no_crc, facts={"tensors": members})


def _npy(reader: Reader, deep: bool) -> Finding:
    end = 0
    while end < reader.size:  # several np.save calls into one open file leave several arrays
        header = read_header(reader.read, end, reader.size)
        if header.size is None:
            break
        following = end + header.data + header.size
        if following > reader.size:
            raise Broken(
                "truncated",
                f"{grouped(following)} bytes, as the shape {header.shape} says",
                f"{grouped(reader.size)} bytes",
            )
        end = following
        if reader.size - end >= 6 and reader.read(end, 6) != MAGIC:
            raise Broken("structure", f"the array to end the file at {grouped(end)}", f"{grouped(reader.size)} bytes")
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    lost = lost_tail(reader, 0)
    return Finding("npy", warnings=() if lost is None else (lost,))


def read_header(read: Read, offset: int, end: int) -> Header:
    """The header of the array that begins at `offset`.

    Raises:
        Broken: there is none, or it is cut.
    """
    head = read(offset, min(12, end - offset))
    if len(head) < 10 or not head.startswith(MAGIC):
        found = "zeros" if head and not any(head) else "other bytes"
        raise Broken("structure" if len(head) >= 6 else "truncated", f"an .npy header at {grouped(offset)}", found)
    major = head[6]
    if not 1 <= major <= 3:
        raise Broken("structure", "an .npy header of version 1 to 3", f"version {major}")
    prefix = 10 if major == 1 else 12
    length = int.from_bytes(head[8:prefix], "little")
    if len(head) < prefix or offset + prefix + length > end:
        raise Broken("truncated", f"an .npy header of {grouped(length)} bytes", f"ends at {grouped(end)}")
    if length > MAX_HEADER:
        raise Broken("limit", f"an .npy header of at most {grouped(MAX_HEADER)} bytes", grouped(length))
    text = read(offset + prefix, length).decode("utf-8" if major == 3 else "latin-1", "replace")
    shape_match = _SHAPE.search(text)
    if shape_match is None or "'descr'" not in text:
        raise Broken("structure", "descr and shape in the .npy header", "other text")
    extents = re.findall(r"\d+", shape_match.group(1))
    if len(extents) > 64 or any(len(part) > 20 for part in extents):
        raise Broken("structure", "a shape that an array can have", f"{len(extents)} extents")
    shape = tuple(int(part) for part in extents)
    count = 1
    for extent in shape:
        count *= extent
    kind, width, little = _dtype(text)
    return Header(kind, little, shape, prefix + length, None if width is None else count * width)


def _dtype(text: str) -> Tuple[str, Optional[int], bool]:
    """(type character and width, bytes of one element, little-endian), None bytes where Python objects are in it."""
    match = _DESCR.search(text)
    if match is None:
        return "", _structured(text), True
    order, kind, digits = match.groups()
    width = int(digits) if digits else 1
    if kind == "O":
        return "O", None, True
    return f"{kind}{width}", width * 4 if kind == "U" else width, order != ">"


def _structured(text: str) -> Optional[int]:
    """Bytes of one element of a structured dtype: the sum of its fields; None where that cannot be told."""
    import ast

    try:
        descr = ast.literal_eval(text.strip())["descr"]
        return _width(descr, 0)
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, MemoryError, RecursionError):
        return None


def _width(descr: object, depth: int) -> int:
    if depth > 16:
        raise ValueError("nested too deep")
    if isinstance(descr, str):
        match = _DESCR.match(f"'descr': '{descr}'")
        if match is None or match.group(2) == "O":
            raise ValueError(descr)
        return int(match.group(3) or 1) * (4 if match.group(2) == "U" else 1)
    if not isinstance(descr, list):
        raise ValueError("no dtype")
    total = 0
    for field in descr:
        width = _width(field[1], depth + 1)
        for extent in field[2] if len(field) > 2 else ():
            width *= int(extent)
        total += width
    return total


def member_header(reader: Reader, record: Record) -> Header:
    """The `.npy` header of a zip member, stored or deflated."""
    if record.method == STORED:
        return read_header(reader.read, record.start, record.start + record.compressed)
    if record.method != DEFLATED:
        raise Broken("structure", "members stored or deflated, as numpy writes them", f"method {record.method}")
    raw = reader.read(record.start, min(record.compressed, 1 << 16))
    try:
        head = zlib.decompressobj(-15).decompress(raw, 12 + MAX_HEADER)
    except zlib.error:
        raise Broken("structure", f"deflated member {printable(record.name)}", "it does not inflate") from None

    def read(offset: int, length: int) -> bytes:
        if offset + length > len(head):
            raise Broken("truncated", f"an .npy header in {printable(record.name)}", "it ends early")
        return head[offset : offset + length]

    return read_header(read, 0, min(record.size, len(head)))


def arrays(reader: Reader) -> Iterator[Array]:
    """Every array of the file, for whoever looks at values."""
    if reader.read(0, min(6, reader.size)) == MAGIC:
        header = read_header(reader.read, 0, reader.size)
        yield Array(reader.name, header, header.data, None)
        return
    records: List[Record] = read_zip(reader).records
    for record in records:
        if record.name.endswith(".npy"):
            header = member_header(reader, record)
            start = record.start + (header.data if record.method == STORED else 0)
            yield Array(record.name[:-4], header, start, record)
