"""The data of HDF5 datasets: what can be said of chunks without reading them, and their checksums where they have one."""

from __future__ import annotations

from typing import Optional, Sequence

from chainwatch.checkpoints.files.base import Broken, Reader, grouped
from chainwatch.checkpoints.files.hdf5_chunks import Chunk
from chainwatch.checkpoints.files.hdf5_filters import DEFLATE, FLETCHER32, decode, plausible
from chainwatch.checkpoints.files.hdf5_objects import Dataset
from chainwatch.checkpoints.files.zeros import lost_tail

HEADS = 20_000
"""Chunks whose first bytes a quick check looks at, those that lie last first."""
MAX_DECODED = 256 << 20
"""Bytes of one stored chunk that are decoded (chunks are some megabytes; decoding takes them whole)."""


def verify(reader: Reader, datasets: Sequence[Dataset], deep: bool) -> bool:
    """Look at the chunks; deep: read every byte and verify every checksum. True where checksums cover all data.

    Raises:
        Broken: a chunk that cannot be what its filters write, or whose checksum differs.
    """
    if not deep:
        _heads(reader, datasets)
        return all(map(_covered, datasets))
    covered = True
    for each in datasets:
        for chunk in each.chunks:
            covered = _verified(reader, each, chunk) and covered
    _rest(reader, datasets)
    return covered


def lost_data(reader: Reader, datasets: Sequence[Dataset]) -> Optional[str]:
    """A warning where the end of the file is zeros and whole data lie in it, else None."""
    lengths = [(chunk.offset, chunk.length) for each in datasets for chunk in each.chunks if chunk.length]
    if not lengths:
        return None
    first = min(offset for offset, _ in lengths)
    return lost_tail(reader, first, max(offset + length for offset, length in lengths))


def _covered(dataset: Dataset) -> bool:
    """Do checksums cover it? What was never written, or lies in the header, has no data of its own."""
    return not dataset.chunks or bool(dataset.filters and {DEFLATE, FLETCHER32} & set(dataset.filters))


def _heads(reader: Reader, datasets: Sequence[Dataset]) -> None:
    filtered = [
        (chunk.offset, chunk.length, chunk.mask, each)
        for each in datasets
        if each.filters and each.filters[-1] == DEFLATE
        for chunk in each.chunks
    ]
    filtered.sort(key=lambda item: -item[0])
    for offset, length, mask, each in filtered[:HEADS]:
        if not plausible(reader.read(offset, min(2, length)), each.filters, mask):
            raise Broken("structure", f"a deflated chunk of {each.name} at {grouped(offset)}", "other bytes")


def _verified(reader: Reader, dataset: Dataset, chunk: Chunk) -> bool:
    """Read one chunk; True where a checksum covered it."""
    if dataset.filters and chunk.length <= MAX_DECODED:
        data = b"".join(bytes(block) for block in reader.blocks(chunk.offset, chunk.length))
        size = chunk.size or chunk.length
        return decode(data, dataset.filters, chunk.mask, size, dataset.width, f"dataset {dataset.name}").verified
    for _ in reader.blocks(chunk.offset, chunk.length):
        pass
    return chunk.length == 0


def _rest(reader: Reader, datasets: Sequence[Dataset]) -> None:
    """Read what lies between the data: an unreadable sector there is one, too."""
    at = 0
    extents = sorted((chunk.offset, chunk.length) for each in datasets for chunk in each.chunks)
    for offset, length in (*extents, (reader.size, 0)):
        if offset > at:
            for _ in reader.blocks(at, offset - at):
                pass
        at = max(at, offset + length)
