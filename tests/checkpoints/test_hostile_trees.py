"""Directories of arrays that somebody made to do harm: each gets an answer in little time, never an exception."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chainwatch.checkpoints import Checkpoint, verify
from chainwatch.checkpoints.files import ocdbt, zstd
from chainwatch.checkpoints.files.base import Broken
from chainwatch.checkpoints.files.checksums import crc32c

ITEM = "good/orbax/manager_composite/ckpt_30"


def judged(place: Path) -> Checkpoint:
    began = time.monotonic()
    found = verify(str(place), deep=True, settle=-1.0).checkpoints[0]
    assert time.monotonic() - began < 10
    return found


def a_fifo(place: Path) -> None:
    target = next((place / "state" / "d").iterdir())
    target.unlink()
    os.mkfifo(target)


def a_loop(place: Path) -> None:
    target = next((place / "state" / "d").iterdir())
    target.unlink()
    target.symlink_to(target)


def a_device(place: Path) -> None:
    target = place / "state" / "manifest.ocdbt"
    target.unlink()
    target.symlink_to("/dev/zero")


def itself(place: Path) -> None:
    (place / "state" / "more").symlink_to(place)
    shutil.rmtree(place / "state" / "d")


def endless_json(place: Path) -> None:
    (place / "_CHECKPOINT_METADATA").write_text("[" * 200_000)


def names_that_leave(place: Path) -> None:
    (place / "_CHECKPOINT_METADATA").write_text(json.dumps({"item_handlers": {"../../etc": "x", "": "y", "a\nb": "z"}}))


def wrong_types(place: Path) -> None:
    (place / "_CHECKPOINT_METADATA").write_text('{"item_handlers": [1], "commit_timestamp_nsecs": {}}')
    (place / "state" / "_METADATA").write_text('{"tree_metadata": {"a": 1, "b": [2]}, "use_ocdbt": "yes"}')


def a_huge_sparse_manifest(place: Path) -> None:
    os.truncate(place / "state" / "manifest.ocdbt", 1 << 40)


@pytest.mark.parametrize(
    "harm",
    [a_fifo, a_loop, a_device, itself, endless_json, names_that_leave, wrong_types, a_huge_sparse_manifest],
    ids=lambda harm: harm.__name__.replace("_", " "),
)
def test_a_hostile_orbax_directory_is_called_damaged(cases: Path, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    place = tmp_path / "30"
    shutil.copytree(cases / ITEM, place)
    harm(place)
    found = judged(place)
    assert not found.intact
    assert "\n" not in found.reason


def test_a_tree_that_points_out_of_its_directory_is_not_followed(tmp_path: Path) -> None:
    table = b"\x01" + bytes((11,)) + b"\x00" + b"/etc/passwd"
    versions = b"\x01\x01\x00" + b"\x00\x00\x10" + b"\x00\x00\x00" + bytes(8)
    body = bytes(16) + b"\x00\x40\x80\x01" + b"\x04" + b"\x00" + table + versions + b"\x00"
    place = tmp_path / "5"
    place.mkdir()
    block = ocdbt.MANIFEST + struct.pack("<Q", len(body) + 18) + b"\x00\x00" + body
    (place / "manifest.ocdbt").write_bytes(block + struct.pack("<I", crc32c([memoryview(block)])))
    found = judged(place)
    assert not found.intact
    assert "/etc/passwd" in found.reason


def test_a_zstd_bomb_is_not_blown_up(tmp_path: Path) -> None:
    # A frame of RLE blocks: 4 bytes each stand for 128 KiB.
    frame = zstd.MAGIC + b"\x00\x88" + (struct.pack("<I", (131072 << 3) | 2)[:3] + b"A") * 20_000 + b"\x01\x00\x00"
    assert zstd.walk(lambda at, length: frame[at : at + length], 0, len(frame)).end == len(frame)
    with pytest.raises(Broken) as broken:
        zstd.decode(frame, 1 << 20)
    assert broken.value.fault.code == "limit"


def test_an_array_of_more_chunks_than_can_be_is_not_counted_to_the_end(tmp_path: Path) -> None:
    place = tmp_path / "step_00000001"
    (place / "gda" / "w").mkdir(parents=True)
    (place / "index").write_text('[["step", 1]]')
    meta = {"chunks": [1, 1], "compressor": None, "dtype": "<f4", "shape": [1 << 40, 1 << 40], "zarr_format": 2}
    (place / "gda" / "w" / ".zarray").write_text(json.dumps(meta))
    assert judged(place).warnings


@pytest.mark.parametrize("text", ['{"step": 1e999, "timestamp": 0}', '{"step": "x", "timestamp": 0}', "[]", "null"])
def test_nonsense_in_the_metadata_of_levanter_is_no_exception(tmp_path: Path, text: str) -> None:
    place = tmp_path / "step-5"
    (place / "model").mkdir(parents=True)
    (place / "metadata.json").write_text(text)
    judged(place)
