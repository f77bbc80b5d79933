"""Every cut of a real file is found by a quick check: at each structural boundary, and at hundreds of other offsets."""

from __future__ import annotations

import os
import random
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chainwatch.checkpoints import verify
from chainwatch.checkpoints.files import examine

MARKS = re.compile(
    rb"PK\x01\x02|PK\x03\x04|PK\x05\x06|PK\x07\x08|\x93NUMPY|TREE|SNOD|HEAP|OHDR|FRHP|\x28\xb5\x2f\xfd|\xc7|\xc8|\xc9"
)
SINGLE = (
    "good/npz/step300.npz",
    "good/npz/compressed_step300.npz",
    "good/keras/run/model.03.keras",
    "good/keras/weights/w.03.weights.h5",
    "bad/flax_msgpack/tmpleft/run/ckpt_3000.msgpack",
    "good/tf/mgr/ckpt-400.index",
    "good/orbax/manager_composite/ckpt_30/state/manifest.ocdbt",
)
TREES = ("good/orbax/manager_composite/ckpt_30", "good/orbax/zarr_noocdbt/step_2", "bad/orbax/rk_sigkill/run/200")


def cuts(data: bytes, some: int, seed: int) -> list[int]:
    """Offsets around each structural boundary, and `some` others."""
    chosen = {0, 1, 2, len(data) // 2, len(data) - 1}
    for match in MARKS.finditer(data):
        chosen.update((match.start() - 1, match.start(), match.start() + 1, match.end()))
    chosen.update(random.Random(seed).sample(range(len(data)), min(some, len(data))))
    return sorted(each for each in chosen if 0 <= each < len(data))


@pytest.mark.parametrize("name", SINGLE)
def test_no_cut_of_a_real_file_goes_unseen(cases: Path, tmp_path: Path, name: str) -> None:
    data = (cases / name).read_bytes()
    path = tmp_path / Path(name).name
    assert examine_bytes(path, data)
    unseen = [cut for cut in cuts(data, 300, len(data)) if examine_bytes(path, data[:cut])]
    assert unseen == []


def examine_bytes(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    return examine(str(path)).ok


@pytest.mark.parametrize("version", ["earliest", "v108", "v110", "latest"])
def test_no_cut_of_an_hdf5_file_goes_unseen_whatever_its_version(tmp_path: Path, version: str) -> None:
    import h5py

    path = tmp_path / "model.h5"
    with h5py.File(path, "w", libver=("earliest", "v108") if version == "earliest" else (version, "latest")) as file:
        for layer in range(12):
            group = file.create_group(f"layer{layer}")
            group["w"] = np.arange(30.0)
            group.attrs["name"] = "dense"
        file.create_dataset(
            "chunks", data=np.random.default_rng(0).random((40, 40)), chunks=(8, 40), compression="gzip"
        )
    data = path.read_bytes()
    assert examine_bytes(path, data)
    assert [cut for cut in cuts(data, 200, 1) if examine_bytes(path, data[:cut])] == []


def test_no_cut_of_a_npy_file_goes_unseen(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    record = np.dtype([("a", "<f4"), ("b", "<i8", (2, 3)), ("c", "S5")])
    for value in (np.arange(50.0), np.zeros((3, 0)), np.zeros(7, record), np.array(3), np.array(["a", "bc"])):
        np.save(path, value)
        data = path.read_bytes()
        assert examine_bytes(path, data)
        assert [cut for cut in range(len(data)) if examine_bytes(path, data[:cut])] == []


def files_below(root: Path) -> Iterator[Path]:
    yield from sorted(each for each in root.rglob("*") if each.is_file() and each.name != "commit_success.txt")


@pytest.mark.parametrize("name", TREES)
def test_no_cut_of_any_file_in_a_real_directory_goes_unseen(cases: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / Path(name).name
    shutil.copytree(cases / name, place)
    unseen = []
    for file in files_below(place):
        data, info = file.read_bytes(), file.stat()
        for cut in cuts(data, 8, len(data))[-25:]:
            file.write_bytes(data[:cut])
            os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
            if verify(str(place)).checkpoints[0].intact:
                unseen.append((str(file.relative_to(place)), cut))
        file.write_bytes(data)
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert unseen == []
    assert verify(str(place)).checkpoints[0].intact


def test_no_cut_of_a_tensorflow_shard_goes_unseen(cases: Path, tmp_path: Path) -> None:
    for file in (cases / "good/tf/mgr").glob("ckpt-400.*"):
        shutil.copy2(file, tmp_path / file.name)
    shard = tmp_path / "ckpt-400.data-00000-of-00001"
    data = shard.read_bytes()
    for cut in cuts(data, 200, 4):
        shard.write_bytes(data[:cut])
        os.utime(shard, (1, 1))
        assert not verify(str(tmp_path / "ckpt-400")).checkpoints[0].intact


def test_a_zeroed_tail_is_found_quickly_where_a_checksum_or_a_frame_covers_it(cases: Path, tmp_path: Path) -> None:
    for name in ("good/tf/mgr/ckpt-400.data-00000-of-00001", "good/tf/mgr/ckpt-400.index"):
        shutil.copy2(cases / name, tmp_path / Path(name).name)
    shard = tmp_path / "ckpt-400.data-00000-of-00001"
    data = shard.read_bytes()
    for kept in (10, len(data) // 2, len(data) - 40):
        shard.write_bytes(data[:kept].ljust(len(data), b"\0"))
        os.utime(shard, (1, 1))
        assert not verify(str(tmp_path / "ckpt-400")).checkpoints[0].intact
    shard.write_bytes(bytes(512) + data[512:])
    os.utime(shard, (1, 1))
    assert not verify(str(tmp_path / "ckpt-400")).checkpoints[0].intact, "nor is a lost head passed over"
    place = tmp_path / "step_2"
    shutil.copytree(cases / "good/orbax/zarr_noocdbt/step_2", place)
    chunk = place / "w" / "0.0"
    data = chunk.read_bytes()
    chunk.write_bytes(data[:10].ljust(len(data), b"\0"))
    os.utime(chunk, (1, 1))
    assert not verify(str(place)).checkpoints[0].intact


def test_a_zeroed_tail_of_an_ocdbt_data_file_is_found_quickly(cases: Path, tmp_path: Path) -> None:
    place = tmp_path / "200"
    shutil.copytree(cases / "bad/orbax/rk_sigkill/run/200", place)
    largest = max(place.rglob("d/*"), key=lambda each: each.stat().st_size)
    data = largest.read_bytes()
    for kept in (100, len(data) // 2, len(data) * 3 // 4):
        largest.write_bytes(data[:kept].ljust(len(data), b"\0"))
        os.utime(largest, (1, 1))
        assert not verify(str(place)).checkpoints[0].intact


def test_archives_of_composer_are_walked_to_their_end(tmp_path: Path) -> None:
    import gzip
    import io

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("state.pt")
        info.size = 3000
        archive.addfile(info, io.BytesIO(bytes(3000)))
    for path, data in (
        (tmp_path / "ep0-ba1-rank0.pt.tar", buffer.getvalue()[:4608]),
        (tmp_path / "ep0-ba1-rank0.pt.gz", gzip.compress(bytes(range(256)) * 20)),
    ):
        path.write_bytes(data)
        assert examine(str(path), kind="tar").ok
        for cut in range(1, len(data), 97):
            path.write_bytes(data[:cut])
            assert not examine(str(path), kind="tar").ok


@pytest.mark.parametrize("version", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("members", [3, 9, 400])
def test_every_dataset_of_an_hdf5_file_is_reached_however_its_group_is_stored(
    tmp_path: Path, version: str, members: int
) -> None:
    import h5py

    path = tmp_path / "model.h5"
    with h5py.File(path, "w", libver=(version, "latest")) as file:
        for index in range(members):
            file.create_dataset(f"layers/a_long_name_of_a_layer_{index}/kernel", data=np.ones(3))
    assert examine(str(path)).facts == {"tensors": members, "walked": True}
    data = path.read_bytes()
    for part in (3, 5, 8) if members > 3 else (3,):
        kept = len(data) * part // 10
        assert not examine_bytes(path, data[:kept].ljust(len(data), b"\0")), "a zeroed tail that takes objects with it"
