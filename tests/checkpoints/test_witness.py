"""What differs from all neighbouring steps is said; what differs from some is not."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from chainwatch.checkpoints import Status, verify


def tensors(path: Path, size: int) -> None:
    header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\1" * size)


def warnings(run: Path) -> dict[int | None, tuple[str, ...]]:
    found = verify(str(run)).checkpoints
    assert {each.status for each in found} == {Status.INTACT}
    return {each.step: each.warnings for each in found}


def test_a_size_that_differs_from_all_neighbours_is_said(tmp_path: Path) -> None:
    for step in (100, 200, 300, 500):
        tensors(tmp_path / f"step_{step}.safetensors", 1_000_000)
    tensors(tmp_path / "step_400.safetensors", 500_000)
    said = warnings(tmp_path)
    assert said.pop(400) == ("step_400.safetensors has 500.1 kB, and 1.0 MB in all its neighbours",)
    assert set(said.values()) == {()}


def test_sizes_that_grow_are_not_worth_a_word(tmp_path: Path) -> None:
    for step in range(100, 600, 100):
        tensors(tmp_path / f"step_{step}.safetensors", 10_000 * step)
    assert set(warnings(tmp_path).values()) == {()}


def test_a_kind_of_file_that_all_neighbours_have_is_said(cases: Path, tmp_path: Path) -> None:
    source = cases / "good/dcp/w2/step_30"
    for step in (10, 20, 30):
        shutil.copytree(source, tmp_path / f"step_{step}")
        (tmp_path / f"step_{step}" / "dataloader.json").write_text("{}")
    shutil.copytree(source, tmp_path / "step_40")
    said = warnings(tmp_path)
    assert said.pop(40) == ("there is no dataloader.json, as all its neighbours have",)
    assert set(said.values()) == {()}


def test_fewer_ranks_than_before_are_not_worth_a_word(cases: Path, tmp_path: Path) -> None:
    source = cases / "good/deepspeed/zero1_resize_w4to2"
    run = tmp_path / "run"
    shutil.copytree(source, run)
    assert set(warnings(run).values()) == {()}
