"""`torch.save` files before torch 1.6, and with `_use_new_zipfile_serialization=False`.

Five pickles (magic, protocol, system, object, storage keys), then for each key its number of elements (int64) and raw
bytes; nothing after. There is no checksum: the file must be exactly as long as its pickles say, and each number of
elements must be what the pickle says; a flipped bit in a tensor cannot be seen.
"""

from __future__ import annotations

import struct

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.opcodes import walk
from chainwatch.checkpoints.files.torch_content import Storage, facts, storages
from chainwatch.checkpoints.files.zeros import lost_tail

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Optional

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def check(reader: Reader, deep: bool) -> Finding:
    """See the module."""
    magic = walk(reader, 0, reader.size)
    if magic.value != MAGIC:
        raise Broken("structure", "the magic number of torch.save", "another pickle")
    protocol = walk(reader, magic.end, reader.size)
    if protocol.value != PROTOCOL:
        raise Broken("structure", f"torch protocol {PROTOCOL}", "another value")
    system = walk(reader, protocol.end, reader.size)
    body = walk(reader, system.end, reader.size)
    keys = walk(reader, body.end, reader.size)
    wanted = storages(body.refs)
    if type(keys.value) is not list or set(map(str, keys.value)) != set(wanted):
        raise Broken("structure", f"keys of {len(wanted)} storages", "a list that differs from the pickle's")
    where = keys.end
    offsets = {}
    for key in keys.value:
        storage = wanted[key]
        if where + 8 > reader.size:
            raise Broken(
                "truncated", f"storage {key} at {grouped(where)}", f"file ends at {grouped(reader.size)} bytes"
            )
        (count,) = struct.unpack("<q", reader.read(where, 8))
        if count != storage.elements:
            raise Broken("structure", f"{grouped(storage.elements)} elements in storage {key}", grouped(count))
        size = storage.size
        if size is None:
            raise Broken("limit", "a known storage type", storage.type)
        offsets[key] = where + 8
        where += 8 + size
        if where > reader.size:
            raise Broken("truncated", f"at least {grouped(where)} bytes", f"file ends at {grouped(reader.size)} bytes")
    if where != reader.size:
        raise Broken("structure", f"{grouped(where)} bytes", f"{grouped(reader.size)} bytes")

    def number_of(storage: Storage, offset: int) -> Optional[float]:
        code = {"FloatStorage": "f", "DoubleStorage": "d", "LongStorage": "q", "IntStorage": "i"}.get(storage.type)
        if code is None or storage.key not in offsets or not 0 <= offset < storage.elements:
            return None
        item = struct.calcsize(code)
        value: float = struct.unpack("<" + code, reader.read(offsets[storage.key] + offset * item, item))[0]
        return value

    found = facts(body.value, number_of)
    found["storages"] = len(wanted)
    if deep:
        for _ in reader.blocks(keys.end, reader.size - keys.end):
            pass
    warning = lost_tail(reader, keys.end)
    return Finding("torch_legacy", warnings=(warning,) if warning else (), facts=found)
