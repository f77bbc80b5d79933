"""Keras' `.keras`: a zip of the configuration and of an HDF5 file with the weights, whose CRC covers them.

Seen on files by Keras 3.15: members `metadata.json`, `config.json`, `model.weights.h5`, all stored, written in place.
"""

from __future__ import annotations

import json
from typing import List

from chainwatch.checkpoints.files.base import Broken, Finding, Reader, printable
from chainwatch.checkpoints.files.hdf5 import Read, examine
from chainwatch.checkpoints.files.zips import STORED, Record, read_zip, verify_records

CONFIG = "config.json"
MAX_CONFIG = 64 << 20


def check(reader: Reader, deep: bool) -> Finding:
    """The zip's structure, the configuration, and the HDF5 file inside; deep: every CRC."""
    archive = read_zip(reader)
    members = archive.named()
    if CONFIG not in members:
        raise Broken("structure", f"{CONFIG} in the archive", "not in it")
    config = members[CONFIG]
    if config.method == STORED and config.size <= MAX_CONFIG:
        try:
            json.loads(reader.read(config.start, config.compressed))
        except (ValueError, RecursionError):
            raise Broken("structure", f"JSON in {CONFIG}", "text that does not parse") from None
    weights: List[Record] = [each for each in archive.records if each.name.endswith(".h5")]
    if not weights:
        raise Broken("structure", "model.weights.h5 in the archive", "no .h5 in it")
    tensors = 0
    warnings: List[str] = []
    for record in weights:
        if record.method != STORED:
            continue
        try:
            found, said, _ = examine(_part(reader, record), record.size)
        except Broken as broken:
            fault = broken.fault
            raise Broken(fault.code, fault.expected, f"{fault.found} in {printable(record.name)}") from None
        tensors += len(found)
        warnings.extend(said)
    faults, covered = verify_records(reader, archive) if deep else ([], True)
    checksummed = covered and not archive.no_crc
    return Finding("keras", tuple(faults), tuple(warnings), checksummed, {"tensors": tensors})


def _part(reader: Reader, record: Record) -> Read:
    def read(offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > record.size:
            raise Broken("truncated", f"{offset + length:,} bytes", f"{record.size:,} bytes")
        return reader.read(record.start + offset, length)

    return read
