"""The data of HDF5 files: every kind of chunk index and filter that h5py writes, found, verified, and missed when lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints.files import examine
from chainwatch.checkpoints.files.base import Broken, Reader
from chainwatch.checkpoints.files.hdf5 import examine as objects
from chainwatch.checkpoints.files.hdf5_filters import decode, fletcher32
from chainwatch.checkpoints.nan import count_nans

h5py: Any = pytest.importorskip("h5py")
np: Any = pytest.importorskip("numpy")

CHUNK = {"chunks": (10, 10)}
KINDS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "first tree": (None, CHUNK),
    "first tree, deflated": (None, {**CHUNK, "compression": "gzip", "shuffle": True}),
    "first tree, fletcher32": (None, {**CHUNK, "fletcher32": True}),
    "all filters": (None, {**CHUNK, "compression": "gzip", "shuffle": True, "fletcher32": True}),
    "single chunk": ("latest", {"chunks": (50, 60)}),
    "single chunk, deflated": ("latest", {"chunks": (50, 60), "compression": "gzip"}),
    "fixed array": ("latest", CHUNK),
    "fixed array, fletcher32": ("latest", {**CHUNK, "fletcher32": True}),
    "fixed array, paged": ("latest", {"chunks": (1, 1)}),
    "fixed array, paged, deflated": ("latest", {"chunks": (1, 2), "compression": "gzip"}),
    "extensible array": ("latest", {**CHUNK, "maxshape": (None, 60)}),
    "extensible array, long": ("latest", {"chunks": (1, 1), "maxshape": (None, 60)}),
    "extensible array, long, deflated": ("latest", {"chunks": (1, 1), "maxshape": (None, 60), "compression": "gzip"}),
    "second tree": ("latest", {**CHUNK, "maxshape": (None, None)}),
    "second tree, deflated": ("latest", {"chunks": (2, 2), "maxshape": (None, None), "compression": "gzip"}),
    "contiguous": (None, {}),
}
NO_CHECKSUM = {kind for kind, (_, how) in KINDS.items() if not {"compression", "fletcher32"} & set(how)}


def written(path: Path, kind: str) -> Any:
    """A file with one such dataset; its values. One of them is NaN."""
    version, how = KINDS[kind]
    values = np.random.RandomState(0).randn(50, 60)
    values[49, 59] = np.nan
    with h5py.File(path, "w", libver=version) as file:
        file.create_dataset("weights", data=values, **how)
        file["bias"] = np.ones(7, "f4")
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_every_chunk_is_found_where_it_lies(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    written(path, kind)
    with Reader(str(path)) as reader:
        found, _, whole = objects(reader.read, reader.size)
    assert whole
    ours = {(each.offset, each.length) for each in next(d for d in found if d.name == "weights").chunks}
    with h5py.File(path) as file:
        data = file["weights"]
        if data.chunks is None:
            assert ours == {(data.id.get_offset(), data.id.get_storage_size())}
        else:
            chunks = [data.id.get_chunk_info(index) for index in range(data.id.get_num_chunks())]
            assert ours == {(each.byte_offset, each.size) for each in chunks}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_by_deep_where_a_filter_has_a_checksum(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    written(path, kind)
    for deep in (False, True):
        finding = examine(str(path), deep)
        assert (finding.faults, finding.warnings) == ((), ())
        assert not finding.checksummed, "the bias has no checksum"
    with h5py.File(path) as file:
        data = file["weights"]
        where = data.id.get_offset() if data.chunks is None else data.id.get_chunk_info(0).byte_offset
        length = data.id.get_storage_size() if data.chunks is None else data.id.get_chunk_info(0).size
    raw = bytearray(path.read_bytes())
    raw[where + length // 2] ^= 16
    path.write_bytes(raw)
    assert examine(str(path)).ok, "quick does not read it"
    assert examine(str(path), deep=True).ok == (kind in NO_CHECKSUM)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_is_counted_behind_every_index_and_filter(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    written(path, kind)
    counted = {each.name: each for each in count_nans(str(path))}
    assert (counted["weights"].nan, counted["weights"].note) == (1, "")
    assert counted["weights"].values >= 3000, "whole chunks, the padding of the last ones included"
    assert counted["bias"].nan == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_tail_of_zeros_is_a_fault_or_a_warning(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    written(path, kind)
    data = path.read_bytes()
    kept = int(len(data) * 0.6)
    path.write_bytes(data[:kept] + bytes(len(data) - kept))
    finding = examine(str(path))
    assert finding.faults or any("zeros" in each for each in finding.warnings)


def test_checksums_cover_a_file_whose_datasets_all_have_one(tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("weights", data=np.ones((50, 60)), chunks=(10, 10), compression="gzip")
        file.create_dataset("never_written", shape=(5, 5), dtype="f8")
    assert examine(str(path)).checksummed
    assert examine(str(path), deep=True).checksummed


def test_a_dataset_of_which_chunks_were_never_written_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "ckpt_1.h5"
    for maxshape in ((500,), (None,)):
        with h5py.File(path, "w", libver="latest") as file:
            file.create_dataset("sparse", shape=(500,), maxshape=maxshape, chunks=(1,), dtype="f8")[400] = 1.0
        assert examine(str(path), deep=True).ok
        assert sum(each.values for each in count_nans(str(path))) == 1


def test_a_chunk_that_inflates_to_more_than_its_size_is_refused() -> None:
    import zlib

    bomb = zlib.compress(bytes(1 << 20))
    with pytest.raises(Broken, match="another size"):
        decode(bomb, (1,), 0, 1000, 8, "a dataset")
    assert decode(bomb, (1,), 1, 1000, 8, "a dataset").data == bomb, "the mask says that the filter was left out"


@pytest.mark.parametrize("length", [0, 1, 2, 3, 719, 720, 721, 200_001])
def test_fletcher32_is_that_of_the_format(length: int) -> None:
    data = bytes((each * 7 + 3) % 256 for each in range(length))
    first = second = 0
    for at in range(0, length, 2):
        first += data[at] << 8 | (data[at + 1] if at + 1 < length else 0)
        second += first
    assert fletcher32(data) == second % 65535 << 16 | first % 65535
