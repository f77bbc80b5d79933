"""Tar archives and gzip streams (Composer's compressed checkpoints): walked to the end that they must have.

gzip says nothing about its length in front, so that a cut is found only by inflating; that verifies its CRC-32, too.
"""

from __future__ import annotations

import zlib
from typing import Iterator

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, grouped

BLOCK = 512


def check(reader: Reader, deep: bool) -> Finding:
    """A gzip stream to its end, or a tar archive to its closing zero block."""
    if reader.read(0, min(2, reader.size)) == b"\x1f\x8b":
        total = sum(_inflate(reader))
        return Finding("tar", checksummed=True, facts={"inflated": total})
    _walk(reader)
    if deep:
        for _ in reader.blocks(0, reader.size):
            pass
    return Finding("tar")


def _inflate(reader: Reader) -> Iterator[int]:
    """Lengths of the inflated pieces; several streams may follow one another."""
    machine = zlib.decompressobj(31)
    done = False
    for block in reader.blocks(0, reader.size):
        pending = bytes(block)
        while pending:
            if done:
                if not pending.strip(b"\0"):
                    break
                machine, done = zlib.decompressobj(31), False
            try:
                yield len(machine.decompress(pending, 1 << 20))
            except zlib.error as error:
                raise Broken("checksum", "a gzip stream that inflates", str(error)) from None
            done = machine.eof
            pending = machine.unused_data if done else machine.unconsumed_tail
    if not done:
        raise Broken("truncated", "the end of the gzip stream", f"{grouped(reader.size)} bytes without it")


def _walk(reader: Reader) -> None:
    at = 0
    while at + BLOCK <= reader.size:
        head = reader.read(at, BLOCK)
        if not any(head):
            if reader.size % BLOCK or at + 2 * BLOCK > reader.size:
                break
            return
        total = sum(head[:148]) + 8 * 32 + sum(head[156:])
        try:
            stated = int(head[148:156].split(b"\0")[0].strip() or b"0", 8)
            field = head[124:136]
            wide = field[0] & 0x80
            size = int.from_bytes(field[1:], "big") if wide else int(field.split(b"\0")[0].strip() or b"0", 8)
        except ValueError:
            raise Broken("structure", f"a tar header at {grouped(at)}", "other bytes") from None
        if stated != total:
            raise Broken("checksum", f"the header at {grouped(at)} with its checksum", "another")
        at += BLOCK + -(-size // BLOCK) * BLOCK
    raise Broken("truncated", "zero blocks that end the archive", f"the file ends at {grouped(reader.size)} bytes")
