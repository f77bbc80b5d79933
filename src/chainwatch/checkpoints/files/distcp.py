"""`.distcp` files of torch distributed checkpoints: items one after another, each a torch zip of its own.

The items are found from the end: each zip says how long it is, and the one before it ends where it begins. So a cut, a
zeroed tail or a lost page is seen without the `.metadata`, and `facts["items"]` can be compared with it. Files of the
safetensors serialisation are safetensors; items that the zstd extension compressed are walked frame by frame, and those
of any other extension are passed over.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Broken, Fault, Finding, Reader
from chainwatch.checkpoints.files.zips import Zip, read_zip, start_of_zip, verify_records
from chainwatch.checkpoints.files.zstd import is_frame, walk

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import List

MAX_WHOLE = 4_000
"""Items of one file whose headers are all read by a quick check; of more, only their directories are."""


def check(reader: Reader, deep: bool) -> Finding:
    """See the module."""
    head = reader.read(0, min(16, reader.size))
    if head[:4] != b"PK\x03\x04":
        if len(head) > 8 and head[8:9] == b"{":
            from chainwatch.checkpoints.files import safetensors

            return safetensors.check(reader, deep)
        if is_frame(head):
            return _frames(reader, deep)
        if len(head) < 16 or head[:2] == b"PK":
            raise Broken("truncated", "an item of a distributed checkpoint", f"{reader.size:,} bytes")
        if not any(head[2:]):
            raise Broken("structure", "an item of a distributed checkpoint", "zeros at the start")
        if deep:
            for _ in reader.blocks(0, reader.size):
                pass
        return Finding("raw")
    archives: List[Zip] = []
    end, items = reader.size, 0
    while end > 0:
        start = start_of_zip(reader, end)
        if deep or items < MAX_WHOLE:
            archives.append(read_zip(reader, start, end))
        items += 1
        end = start
    faults: List[Fault] = []
    covered = not any(archive.no_crc for archive in archives)
    if deep:
        records = [record for archive in archives for record in archive.records]
        faults, covered = verify_records(reader, Zip(records, all(archive.no_crc for archive in archives)))
    return Finding("distcp", tuple(faults), (), covered, {"items": items})


def _frames(reader: Reader, deep: bool) -> Finding:
    """Items that the zstd extension compressed, one behind the other."""
    at = 0
    while at < reader.size:
        at = walk(reader.read, at, reader.size).end
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    return Finding("zstd")
