"""Plain pickles (`random_states_0.pkl`, optimizer states of older code): each must reach STOP, the last at the end."""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped
from chainwatch.checkpoints.files.opcodes import walk

MAX_PICKLES = 10_000


def check(reader: Reader, deep: bool) -> Finding:
    """One pickle or several one after another, that fill the file; or a torch file under a name of a pickle."""
    head = reader.read(0, min(16, reader.size))
    if head[:4] == b"PK\x03\x04":
        from chainwatch.checkpoints.files import torch_zip

        return torch_zip.check(reader, deep)
    if head[:1] != b"\x80" and not any(head):
        raise Broken("structure", "a pickle", "zeros at the start")
    at, count = 0, 0
    try:
        while at < reader.size:
            at = walk(reader, at, reader.size).end
            count += 1
            if count > MAX_PICKLES:
                raise Broken("limit", f"at most {MAX_PICKLES} pickles in one file", "more")
    except Broken as broken:
        if broken.fault.code == "limit":
            return Finding("pickle", warnings=("a pickle too large to be walked to its end",))
        if count:
            raise Broken(
                "structure", f"{grouped(at)} bytes", f"other bytes after the pickle, to {grouped(reader.size)}"
            ) from None
        raise
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    return Finding("pickle")
