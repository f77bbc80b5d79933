"""Weights that Keras split into shards, and Orbax items that hold no arrays, laid out as their libraries write them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import Status, newest_intact, verify
from tests.checkpoints.test_other_layouts import age, judge

h5py: Any = pytest.importorskip("h5py")


def shards(run: Path, epoch: int) -> list[Path]:
    names = [f"m-{epoch}_{number:05d}.weights.h5" for number in range(3)]
    for name in names:
        with h5py.File(run / name, "w") as file:
            file["w"] = [float(epoch)] * 20_000
    weights = {f"/layers/dense_{number}/vars": [name] for number, name in enumerate(names)}
    (run / f"m-{epoch}.weights.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weights}))
    return [run / name for name in names]


@pytest.mark.parametrize(
    ("damage", "status"),
    [
        (lambda run: (run / "m-2_00001.weights.h5").unlink(), Status.INCOMPLETE),
        (lambda run: (run / "m-2.weights.json").unlink(), Status.INCOMPLETE),
        (lambda run: os.truncate(run / "m-2_00002.weights.h5", 1000), Status.DAMAGED),
        (lambda run: (run / "m-2.weights.json").write_text('{"weight_map"'), Status.DAMAGED),
        (lambda run: (run / "m-2.weights.json").write_text('{"weight_map": {"a": 1}}'), Status.DAMAGED),
    ],
)
def test_weights_in_shards_are_one_checkpoint_that_needs_all_of_them(
    damage: Callable[[Path], Any], status: Status, tmp_path: Path
) -> None:
    for epoch in (1, 2, 3):
        shards(tmp_path, epoch)
    age(tmp_path)
    found = verify(str(tmp_path)).checkpoints
    assert [(each.step, each.status, each.warnings) for each in found] == [(n, Status.INTACT, ()) for n in (1, 2, 3)]
    for path in tmp_path.glob("m-3*"):
        path.unlink()
    damage(tmp_path)
    age(tmp_path)
    newest = newest_intact(str(tmp_path))
    assert newest is not None
    assert newest.step == 1
    assert {each.step: each.status for each in verify(str(tmp_path)).checkpoints} == {1: Status.INTACT, 2: status}


def test_an_epoch_of_five_digits_is_no_shard(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "m_00010.weights.h5", "w") as file:
        file["w"] = [1.0]
    assert judge(tmp_path / "m_00010.weights.h5").intact
    assert [each.step for each in verify(str(tmp_path)).checkpoints] == [10]


def test_an_item_of_strings_alone_needs_no_array_store_but_its_strings(tmp_path: Path) -> None:
    item = tmp_path / "7" / "config"
    item.mkdir(parents=True)
    leaf = {"key_metadata": [{"key": "name", "key_type": 2}], "value_metadata": {"value_type": "string"}}
    (item / "_METADATA").write_text(json.dumps({"tree_metadata": {"('name',)": leaf}, "use_ocdbt": True}))
    (item / "_strings.json").write_text('{"name": "value"}')
    handler = {"item_handlers": {"config": "a.PyTreeHandler"}, "commit_timestamp_nsecs": 1}
    (tmp_path / "7" / "_CHECKPOINT_METADATA").write_text(json.dumps(handler))
    age(tmp_path)
    assert (judge(tmp_path / "7").status, judge(tmp_path / "7").format) == (Status.INTACT, "orbax")
    (item / "_strings.json").write_text('{"name"')
    age(tmp_path)
    assert judge(tmp_path / "7").status is Status.DAMAGED
    (item / "_strings.json").unlink()
    age(tmp_path)
    assert judge(tmp_path / "7").status is Status.INCOMPLETE
    (item / "_METADATA").unlink()
    age(tmp_path)
    assert judge(tmp_path / "7").status is Status.INCOMPLETE
