"""`torch.save` files of torch 1.6 and later: a zip of stored records, one pickle and one record per storage.

Quick reads the directory, every local header and the pickle, and compares each storage that the pickle names with the
record that holds it; so it finds every cut, zeroed tails and heads, and lost records. Deep verifies the CRC-32 of each
record. `torch.serialization.set_crc32_options(False)` leaves all CRCs 0: that is no damage, but nothing to verify.
"""

from __future__ import annotations

import struct

from chainwatch.checkpoints.files.base import Broken, Fault, Finding, Reader, grouped
from chainwatch.checkpoints.files.opcodes import walk
from chainwatch.checkpoints.files.torch_content import Storage, facts, storages
from chainwatch.checkpoints.files.zips import STORED, Record, Zip, read_zip, verify_records

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

_NUMBERS = {"FloatStorage": "f", "DoubleStorage": "d", "LongStorage": "q", "IntStorage": "i", "ShortStorage": "h"}


def check(reader: Reader, deep: bool) -> Finding:
    """A zip that torch wrote; any other zip is checked for what all zips have."""
    head = reader.read(0, min(32, reader.size))
    if head[:1] == b"\x80":
        from chainwatch.checkpoints.files import LEGACY, pickles, torch_legacy

        if LEGACY in head or reader.size < 32:
            return torch_legacy.check(reader, deep)
        return pickles.check(reader, deep)
    if head[:4] != b"PK\x03\x04" and not _is_empty_zip(head):
        what = "zeros at the start" if not any(head) else "other bytes at the start"
        raise Broken("structure" if reader.size > 4 else "truncated", "a torch file", what)
    return check_zip(reader, 0, reader.size, deep)


def check_zip(reader: Reader, start: int, end: int, deep: bool) -> Finding:
    """The zip between two offsets: a whole file, or one item of a `.distcp` file."""
    archive = read_zip(reader, start, end)
    return judge_zip(reader, archive, deep)


def judge_zip(reader: Reader, archive: Zip, deep: bool) -> Finding:
    """What is inside a zip whose structure is right."""
    named = archive.named()
    pickles = [name for name in named if name == "data.pkl" or name.endswith("/data.pkl")]
    faults: List[Fault] = []
    found: Dict[str, Any] = {}
    warnings: List[str] = []
    if pickles:
        stem = pickles[0][: -len("data.pkl")]
        if stem + "version" not in named:
            faults.append(Fault("structure", f"a record {stem}version", "none"))
        try:
            found = _contents(reader, named, stem, faults)
        except Broken as broken:
            if broken.fault.code != "limit":
                raise
            warnings.append("its pickle is too large to be cross-checked with the records")
    covered = not archive.no_crc
    if deep:
        broken_records, covered = verify_records(reader, archive)
        faults.extend(broken_records)
    return Finding("torch_zip" if pickles else "zip", tuple(faults), tuple(warnings), covered, found)


def _is_empty_zip(head: bytes) -> bool:
    return head[:4] == b"PK\x05\x06"


def _contents(reader: Reader, named: Dict[str, Record], stem: str, faults: List[Fault]) -> Dict[str, Any]:
    record = named[stem + "data.pkl"]
    if record.method != STORED:
        raise Broken("limit", "a stored pickle", "a compressed one")
    walked = walk(reader, record.start, record.start + record.size)
    if walked.end != record.start + record.size:
        faults.append(Fault("structure", "a pickle that fills its record", f"it ends at {grouped(walked.end)}"))
    wanted = storages(walked.refs)
    for key, storage in wanted.items():
        size = storage.size
        if size == 0:
            continue
        held = named.get(f"{stem}data/{key}")
        if held is None:
            faults.append(Fault("structure", f"a record {stem}data/{key}", "none"))
        elif size is not None and held.size != size:
            faults.append(Fault("structure", f"{grouped(size)} bytes in data/{key}", f"{grouped(held.size)} bytes"))

    def number_of(storage: Storage, offset: int) -> Optional[float]:
        code = _NUMBERS.get(storage.type)
        held = named.get(f"{stem}data/{storage.key}")
        if code is None or held is None or held.method != STORED:
            return None
        item = struct.calcsize(code)
        if offset < 0 or (offset + 1) * item > held.size:
            return None
        value: float = struct.unpack("<" + code, reader.read(held.start + offset * item, item))[0]
        return value

    found = facts(walked.value, number_of)
    found["storages"] = len(wanted)
    return found
