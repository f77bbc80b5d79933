"""Distributed checkpoints that torch did not serialise its usual way: safetensors, zstd, consolidated by the ranks."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from chainwatch.checkpoints import Checkpoint, Status, verify
from tests.checkpoints import torch_files
from tests.checkpoints.test_other_layouts import age

FILESYSTEM = "torch.distributed.checkpoint.filesystem"
METADATA = "torch.distributed.checkpoint.metadata"


@pytest.fixture
def torch_classes(monkeypatch: pytest.MonkeyPatch) -> tuple[type, type]:
    """Stand-ins that pickle as torch's own classes do."""
    made = []
    for parent in ("torch", "torch.distributed", "torch.distributed.checkpoint"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    for module, name in ((FILESYSTEM, "_StorageInfo"), (METADATA, "Metadata")):
        cls = type(name, (), {"__module__": module})
        place = types.ModuleType(module)
        setattr(place, name, cls)
        monkeypatch.setitem(sys.modules, module, place)
        made.append(cls)
    return made[0], made[1]


def metadata(
    step: Path, classes: tuple[type, type], items: dict[str, tuple[str, int, int]], how: list[str] | None
) -> None:
    storage = {}
    for name, (file, offset, length) in items.items():
        info = classes[0]()
        info.__dict__.update(relative_path=file, offset=offset, length=length)
        if how is not None:
            info.__dict__.update(transform_descriptors=how)
        storage[name] = info
    whole = classes[1]()
    whole.__dict__.update(state_dict_metadata={}, storage_data=storage)
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=2).dump(whole)
    (step / ".metadata").write_bytes(buffer.getvalue())


def judged(step: Path) -> Checkpoint:
    age(step.parent)
    os.utime(step, (1.7e9, 1.7e9))
    return verify(str(step)).checkpoints[0]


def test_shards_in_safetensors_are_as_long_as_they_themselves_say(tmp_path: Path, torch_classes: Any) -> None:
    step = tmp_path / "step_10"
    step.mkdir()
    save_file({"a": np.ones((4, 4), "f4"), "b": np.ones(9, "f4")}, step / "__0_0.distcp")
    # torch 2.13 notes the offset before the file is written, and lengths without the header.
    metadata(step, torch_classes, {"a": ("__0_0.distcp", 0, 64), "b": ("__0_0.distcp", 0, 36)}, None)
    assert judged(step).status is Status.INTACT, judged(step).reason
    data = (step / "__0_0.distcp").read_bytes()
    (step / "__0_0.distcp").write_bytes(data[:-1])
    assert judged(step).status is Status.DAMAGED
    save_file({"a": np.ones((4, 4), "f4")}, step / "__0_0.distcp")
    assert judged(step).status is Status.DAMAGED, "a tensor is lost"


def test_a_shard_of_other_bytes_is_damage_where_no_transform_is_noted(tmp_path: Path, torch_classes: Any) -> None:
    step = tmp_path / "step_10"
    step.mkdir()
    torch_files.save(step / "__0_0.distcp", {})
    size = (step / "__0_0.distcp").stat().st_size
    metadata(step, torch_classes, {"a": ("__0_0.distcp", 0, size)}, None)
    assert judged(step).status is Status.INTACT, judged(step).reason
    (step / "__0_0.distcp").write_bytes(bytes(range(1, 200)) * 100 + b"x" * size)
    os.truncate(step / "__0_0.distcp", size)
    assert judged(step).status is Status.DAMAGED
    metadata(step, torch_classes, {"a": ("__0_0.distcp", 0, size)}, ["my.extension/1"])
    assert judged(step).status is Status.INTACT, "nobody here knows what it writes"


def test_compressed_shards_are_walked_frame_by_frame(tmp_path: Path, torch_classes: Any) -> None:
    zstandard = pytest.importorskip("zstandard")
    step = tmp_path / "step_10"
    step.mkdir()
    parts = [zstandard.ZstdCompressor().compress(os.urandom(3000)) for _ in range(2)]
    path = step / "__0_0.distcp"
    path.write_bytes(b"".join(parts))
    items = {"a": (path.name, 0, len(parts[0])), "b": (path.name, len(parts[0]), len(parts[1]))}
    metadata(step, torch_classes, items, ["stream.zstd/1"])
    assert judged(step).status is Status.INTACT, judged(step).reason
    data = path.read_bytes()
    for broken in (data[: len(parts[0])] + bytes(len(parts[1])), b"\1" * len(data), data[:-1]):
        path.write_bytes(broken)
        assert judged(step).status is Status.DAMAGED
    path.unlink()
    assert judged(step).status is Status.INCOMPLETE


def consolidated(run: Path, name: str) -> Path:
    step = run / name
    (step / "sharded").mkdir(parents=True)
    for rank in (1, 2):
        save_file({"w": np.ones((2, 4), "f4")}, step / "sharded" / f"shard-{rank:05d}-model-00001-of-00001.safetensors")
    save_file({"w": np.ones((4, 4), "f4")}, step / "model-00001-of-00001.safetensors")
    weights = {"metadata": {"total_size": 64}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (step / "model.safetensors.index.json").write_text(json.dumps(weights))
    return step


@pytest.mark.parametrize("name", ["step-30", "step_30"])
def test_whole_files_that_ranks_put_together_are_the_checkpoint(name: str, tmp_path: Path) -> None:
    step = consolidated(tmp_path, name)
    found = judged(step)
    assert (found.status, found.format, found.step) == (Status.INTACT, "dcp", 30), found.reason
    assert [each.path for each in verify(str(tmp_path)).checkpoints] == [str(step)]
    whole = step / "model-00001-of-00001.safetensors"
    data = whole.read_bytes()
    whole.write_bytes(data[:-1])
    assert judged(step).status is Status.DAMAGED
    whole.write_bytes(data)
    (step / "model.safetensors.index.json").unlink()
    assert judged(step).status is Status.INCOMPLETE
