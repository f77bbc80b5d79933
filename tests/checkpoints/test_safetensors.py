"""safetensors files: every cut is found, every rule of the header holds, and good files are left in peace."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from chainwatch.checkpoints.files import examine


def write(path: Path, header: dict[str, Any] | bytes, data: bytes, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def place(*offsets: int, shape: tuple[int, ...] = (4,), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_file_of_the_library_is_whole_and_every_cut_of_it_is_found(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": np.arange(40.0), "b": np.ones((3, 5), np.float16), "none": np.zeros((0, 2))}, str(path), {"k": "v"})
    finding = examine(str(path), deep=True)
    assert finding.ok
    assert not finding.warnings
    assert finding.facts["names"].keys() == {"a", "b", "none"}  # type: ignore[attr-defined]
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert not examine(str(path)).ok
    path.write_bytes(data + b"x")
    assert not examine(str(path)).ok


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": place(4, 20)}, bytes(range(20))),
        ({"a": place(0, 16), "b": place(20, 36)}, bytes(36)),
        ({"a": place(0, 16), "b": place(8, 24)}, bytes(24)),
        ({"a": place(0, 12)}, bytes(12)),
        ({"a": place(16, 0)}, bytes(16)),
        ({"a": place(0, 16, shape=(-4,))}, bytes(16)),
        ({"a": {"dtype": "F32"}}, bytes(16)),
        ({"a": [1]}, bytes(16)),
        ({"a": place(0, True)}, bytes(1)),
        (b"[]", b""),
        (b"{" + b"[" * 100_000, b""),
        (b"\0" * 64, bytes(64)),
        (b"{}garbage", b""),
    ],
)
def test_a_header_that_does_not_account_for_the_file_is_refused(
    tmp_path: Path, header: dict[str, Any] | bytes, data: bytes
) -> None:
    assert not examine(str(write(tmp_path / "m.safetensors", header, data))).ok


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 100_000_001, 5000])
def test_a_header_length_beyond_all_reason_is_refused_without_reading_it(tmp_path: Path, length: int) -> None:
    assert not examine(str(write(tmp_path / "m.safetensors", {"a": place(0, 16)}, bytes(16), length))).ok


def test_types_that_are_not_known_are_not_judged_by_size(tmp_path: Path) -> None:
    assert examine(str(write(tmp_path / "m.safetensors", {"a": place(0, 3, dtype="F5_NEW")}, b"abc"))).ok


def test_a_tail_of_nothing_but_zeros_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": np.arange(1.0, 5000.0)}, str(path))
    data = path.read_bytes()
    assert not examine(str(path)).warnings
    path.write_bytes(data[: len(data) * 6 // 10].ljust(len(data), b"\0"))
    assert "zeros" in examine(str(path)).warnings[0]
    with path.open("r+b") as file:
        file.truncate(len(data) * 6 // 10)
        file.truncate(len(data))
    assert examine(str(path)).ok
    assert examine(str(path)).warnings
