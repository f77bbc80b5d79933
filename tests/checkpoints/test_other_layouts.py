"""levanter, axlearn, nanotron, Composer and Keras' backups, laid out as their sources write them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from chainwatch.checkpoints import Checkpoint, Status, newest_intact, verify
from tests.checkpoints import torch_files

OLD = 1_700_000_000


def zarr(where: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """An uncompressed zarr array of version 2, none of its chunks left out."""
    where.mkdir(parents=True)
    meta = {"chunks": chunks, "compressor": None, "dtype": "<f4", "fill_value": None, "filters": None, "order": "C"}
    (where / ".zarray").write_text(json.dumps({**meta, "shape": shape, "zarr_format": 2}))
    counts = [-(-extent // chunk) for extent, chunk in zip(shape, chunks, strict=True)]
    for index in np.ndindex(*counts):
        data = np.random.default_rng(1).random(chunks).astype("<f4")
        (where / ".".join(map(str, index))).write_bytes(data.tobytes())


def age(run: Path) -> None:
    for where, dirs, files in os.walk(run):
        for name in (*dirs, *files):
            os.utime(os.path.join(where, name), (OLD, OLD))


def judge(path: Path) -> Checkpoint:
    return verify(str(path)).checkpoints[0]


# -- levanter ---------------------------------------------------------------------------------------------------------


def levanter(run: Path, step: int) -> Path:
    where = run / f"step-{step}"
    zarr(where / "model" / "w", (8, 6), (4, 6))
    zarr(where / "opt_state" / "mu" / "w", (8, 6), (8, 6))
    (where / "metadata.json").write_text(json.dumps({"step": step, "timestamp": "2026-01-01T00:00:00"}))
    return where


def test_levanter_directories_are_intact_once_their_metadata_is_written(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    newest = levanter(tmp_path, 200)
    age(tmp_path)
    report = verify(str(tmp_path))
    assert [(each.format, each.step, each.status.value) for each in report.checkpoints] == [
        ("levanter", 100, "intact"),
        ("levanter", 200, "intact"),
    ]
    (newest / "metadata.json").unlink()
    age(tmp_path)
    assert judge(newest).status is Status.INCOMPLETE
    assert newest_intact(str(tmp_path)) == report.checkpoints[0]


def test_a_chunk_of_levanter_that_its_neighbour_has_is_lost_and_one_that_none_has_is_zeros(tmp_path: Path) -> None:
    one, two = levanter(tmp_path, 100), levanter(tmp_path, 200)
    (two / "model" / "w" / "1.0").unlink()
    age(tmp_path)
    assert judge(two).status is Status.DAMAGED
    (one / "model" / "w" / "1.0").unlink()
    found = judge(two)
    assert found.intact
    assert "read back as zeros" in found.warnings[0]


@pytest.mark.parametrize(
    ("harm", "status"),
    [
        (lambda where: os.truncate(where / "model/w/0.0", 50), Status.DAMAGED),
        (lambda where: os.truncate(where / "model/w/.zarray", 20), Status.DAMAGED),
        (lambda where: (where / "model/w/.zarray").unlink(), Status.DAMAGED),
        (lambda where: os.truncate(where / "metadata.json", 0), Status.DAMAGED),
        (lambda where: (where / "metadata.json").write_text('{"step": 7, "timestamp": ""}'), Status.DAMAGED),
        (lambda where: shutil.rmtree(where / "opt_state"), Status.INCOMPLETE),
    ],
    ids=[
        "cut chunk",
        "cut metadata of an array",
        "no metadata of an array",
        "empty mark",
        "other step",
        "no optimizer",
    ],
)
def test_damage_to_levanter_is_found(tmp_path: Path, harm: Callable[[Path], object], status: Status) -> None:
    levanter(tmp_path, 100)
    where = levanter(tmp_path, 200)
    harm(where)
    age(tmp_path)
    assert judge(where).status is status


# -- axlearn ----------------------------------------------------------------------------------------------------------


def axlearn(run: Path, step: int) -> Path:
    where = run / f"step_{step:08d}"
    zarr(where / "gda" / "model" / "w", (8, 6), (4, 6))
    zarr(where / "gda" / "learner" / "mu", (8,), (8,))
    index = [
        ["step", step],
        ["model/w", {"dtype": "float32", "shape": "(8, 6)"}],
        ["learner/mu", {"dtype": "float32", "shape": "(8,)"}],
    ]
    (where / "index").write_text(json.dumps(index))
    return where


@pytest.mark.parametrize(
    ("harm", "status"),
    [
        (lambda where: None, Status.INTACT),
        (lambda where: (where / "index").unlink(), Status.INCOMPLETE),
        (lambda where: os.truncate(where / "index", 0), Status.DAMAGED),
        (lambda where: os.truncate(where / "index", 30), Status.DAMAGED),
        (lambda where: os.truncate(where / "gda/model/w/1.0", 10), Status.DAMAGED),
        (lambda where: shutil.rmtree(where / "gda/learner"), Status.INCOMPLETE),
        (lambda where: (where / "index").write_text('[["step", 3]]'), Status.DAMAGED),
    ],
    ids=["whole", "no index", "empty index", "cut index", "cut chunk", "lost array", "other step"],
)
def test_axlearn_directories_are_judged_by_their_index(
    tmp_path: Path, harm: Callable[[Path], object], status: Status
) -> None:
    axlearn(tmp_path, 100)
    where = axlearn(tmp_path, 200)
    harm(where)
    age(tmp_path)
    found = judge(where)
    assert (found.format, found.step, found.status) == ("axlearn", 200, status)


# -- nanotron ---------------------------------------------------------------------------------------------------------


def nanotron(run: Path, step: int, dp: int = 2, tp: int = 2) -> Path:
    where = run / str(step)
    for rank in range(tp):
        name = f"model/decoder/0/model_weight_pp-rank-0-of-1_tp-rank-{rank}-of-{tp}.safetensors"
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        save_file({"data": np.ones((3, 4), np.float32)}, str(where / name))
    for part in ("optimizer", "lr_scheduler", "random"):
        (where / part).mkdir()
    for d in range(dp):
        for t in range(tp):
            torch_files.save(where / f"optimizer/optimizer_pp-0-of-1_dp-{d}-of-{dp}_tp-{t}-of-{tp}_exp-0-of-1.pt", d)
    (where / "optimizer" / "optimizer_config.json").write_text("{}")
    torch_files.save(where / "lr_scheduler" / "lr_scheduler.pt", 0)
    (where / "config.yaml").write_text("a: 1\n")
    metadata = {"version": "1.4", "tp": tp, "dp": dp, "metas": {"last_train_step": step}}
    (where / "checkpoint_metadata.json").write_text(json.dumps(metadata))
    for rank in range(dp * tp):
        torch_files.save(where / "random" / f"tp-{rank % tp}-of-{tp}_dp-{rank // tp}-of-{dp}.pt", 0)
    (run / "latest.txt").write_text(str(step))
    return where


NANOTRON_OPTIMIZER = "optimizer/optimizer_pp-0-of-1_dp-1-of-2_tp-1-of-2_exp-0-of-1.pt"


@pytest.mark.parametrize(
    ("harm", "status"),
    [
        (lambda where: None, Status.INTACT),
        (lambda where: (where / "checkpoint_metadata.json").unlink(), Status.INCOMPLETE),
        (lambda where: (where / NANOTRON_OPTIMIZER).unlink(), Status.INCOMPLETE),
        (lambda where: next((where / "model/decoder/0").iterdir()).unlink(), Status.INCOMPLETE),
        (lambda where: shutil.rmtree(where / "optimizer"), Status.INCOMPLETE),
        (lambda where: (where / "lr_scheduler/lr_scheduler.pt").unlink(), Status.INCOMPLETE),
        (lambda where: (where.parent / "latest.txt").write_text("100"), Status.INCOMPLETE),
        (lambda where: os.truncate(where / "checkpoint_metadata.json", 10), Status.DAMAGED),
    ],
    ids=["whole", "no mark", "lost rank", "lost tensor rank", "no optimizer", "no scheduler", "pointer", "cut mark"],
)
def test_nanotron_directories_need_every_rank_their_names_promise(
    tmp_path: Path, harm: Callable[[Path], object], status: Status
) -> None:
    nanotron(tmp_path, 100)
    where = nanotron(tmp_path, 200)
    harm(where)
    age(tmp_path)
    found = judge(where)
    assert (found.format, found.step, found.status) == ("nanotron", 200, status), found.reason


def test_a_nanotron_run_that_changed_its_world_is_not_held_against_its_neighbour(tmp_path: Path) -> None:
    nanotron(tmp_path, 100, dp=4)
    where = nanotron(tmp_path, 200, dp=2)
    age(tmp_path)
    assert judge(where).intact


# -- Composer ---------------------------------------------------------------------------------------------------------


def composer(run: Path, batch: int, ranks: int) -> list[Path]:
    found = []
    for rank in range(ranks):
        path = run / f"ep0-ba{batch}-rank{rank}.pt"
        torch_files.save(path, batch)
        link = run / f"latest-rank{rank}.pt"
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        found.append(path)
    return found


def test_files_of_all_ranks_of_composer_are_one_checkpoint(tmp_path: Path) -> None:
    composer(tmp_path, 100, 2)
    second = composer(tmp_path, 200, 2)
    age(tmp_path)
    report = verify(str(tmp_path))
    assert [(each.format, each.step, each.status.value) for each in report.checkpoints] == [
        ("composer", 100, "intact"),
        ("composer", 200, "intact"),
    ]
    assert report.checkpoints[1].path == str(tmp_path / "ep0-ba200-rank{rank}.pt")
    assert report.pointer == report.checkpoints[1].path
    second[1].unlink()
    found = verify(str(tmp_path)).checkpoints[1]
    assert found.status is Status.INCOMPLETE
    assert "ep0-ba200-rank1.pt" in found.reason


def test_a_checkpoint_of_composer_from_one_rank_is_its_file(tmp_path: Path) -> None:
    composer(tmp_path, 100, 1)
    (path,) = composer(tmp_path, 200, 1)
    age(tmp_path)
    assert newest_intact(str(tmp_path)) == judge(path)
    os.truncate(path, path.stat().st_size - 1)
    age(tmp_path)
    assert judge(path).status is Status.DAMAGED
    found = newest_intact(str(tmp_path))
    assert found is not None
    assert found.step == 100


# -- Keras ------------------------------------------------------------------------------------------------------------


def test_the_backup_of_keras_knows_its_epoch_and_needs_both_files(tmp_path: Path) -> None:
    import h5py

    where = tmp_path / "backup"
    where.mkdir()
    with h5py.File(where / "latest.weights.h5", "w") as file:
        file["w"] = np.ones(100)
    (where / "training_metadata.json").write_text('{"epoch": 3, "batch": 0}')
    age(tmp_path)
    found = judge(where)
    assert (found.format, found.step, found.status) == ("keras", 3, Status.INTACT)
    (where / "latest.weights.h5").unlink()
    os.utime(where, (OLD, OLD))
    assert judge(where).status is Status.INCOMPLETE


def test_data_sets_beside_a_run_are_no_checkpoints(tmp_path: Path) -> None:
    for name in ("train.npz", "test.npy", "corpus.h5"):
        (tmp_path / name).write_bytes(b"data")
    assert verify(str(tmp_path)).checkpoints == ()
