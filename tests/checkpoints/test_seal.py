"""The seal: rot becomes visible in formats without a checksum, and a later save is not taken for rot."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import pytest

from chainwatch.checkpoints import verify
from chainwatch.checkpoints.formats import FORMATS
from chainwatch.checkpoints.polite import Throttle
from chainwatch.checkpoints.seal import (
    SealError,
    apply_seals,
    due,
    files_of,
    load_seal,
    make_seal,
    prune,
    verify_seal,
)
from chainwatch.model.checkpoint import Checkpoint, Status

from .conftest import DATA

ROWS = list(csv.DictReader((DATA / "CASES.tsv").open(), delimiter="\t"))
SILENT = [row for row in ROWS if row["level"] == "none"]
"""Damage that nothing in the files themselves shows."""
TWINS = {
    "bad/torch_legacy/bitflip/run/ckpt_000300.pt": "bad/torch_legacy/chmod000/run/ckpt_000300.pt",
    "bad/torch_legacy/hole_mid/run/ckpt_000300.pt": "bad/torch_legacy/chmod000/run/ckpt_000300.pt",
    "bad/safetensors_single/bitflip/run/step_300.safetensors": "bad/safetensors_single/tmpleft/run/step_300.safetensors",
    "bad/safetensors_single/hole_mid/run/step_300.safetensors": "bad/safetensors_single/tmpleft/run/step_300.safetensors",
    "bad/hf_trainer/mixed_step/run/checkpoint-12": "good/hf_trainer/sharded/checkpoint-12",
    "bad/dcp/mixed_step/run/step_30": "bad/dcp/chmod000/run/step_30",
    "bad/flax_msgpack/bitflip/run/ckpt_3000.msgpack": "bad/flax_msgpack/tmpleft/run/ckpt_3000.msgpack",
    "bad/flax_msgpack/hole_mid/run/ckpt_3000.msgpack": "bad/flax_msgpack/tmpleft/run/ckpt_3000.msgpack",
    "bad/keras/h5_bitflip/run/w.03.weights.h5": "bad/keras/h5_tmpleft/run/w.03.weights.h5",
    "bad/orbax/data_bitflip/run/400": "bad/orbax/tmp_dir/run/400.orbax-checkpoint-tmp",
}
"""The same checkpoints, undamaged, from other cases of the archive."""


def one_file(tmp_path: Path, size: int = 50_000) -> Path:
    """A file checkpoint, two hours old."""
    import numpy as np

    path = tmp_path / "step_7.npy"
    np.save(path, np.random.default_rng(7).random(size // 8))
    age(path)
    return path


def age(path: Path, hours: float = 2.0) -> None:
    info = path.stat()
    os.utime(path, (info.st_atime, info.st_mtime - hours * 3600))


def judged(path: Path) -> Checkpoint:
    return verify(str(path)).checkpoints[0]


def again(path: Path, state: Path, deep: bool = True) -> Checkpoint:
    return apply_seals(verify(str(path), deep=deep), str(state), deep).checkpoints[0]


def flip(path: Path, offset: int, keep_time: bool = True) -> None:
    info = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes((byte ^ 0x10,)))
    if keep_time:
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


@pytest.mark.parametrize("row", SILENT, ids=lambda row: row["path"])
def test_damage_that_no_format_shows_is_found_by_a_seal_of_the_undamaged_bytes(
    cases: Path, tmp_path: Path, row: dict[str, str]
) -> None:
    damaged = cases / row["path"]
    place = tmp_path / damaged.name
    copy(cases / TWINS[row["path"]], place)
    make_seal(Checkpoint(str(place), int(row["step"]), row["format"], Status.INTACT, ""), str(tmp_path / "state"))
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    copy(damaged, place)
    seal = load_seal(str(place), str(tmp_path / "state"))
    assert seal is not None
    verdict = verify_seal(seal)
    assert [problem.code for problem in verdict.problems] in (["checksum"], ["mixed"])
    if row["format"] in FORMATS:
        assert judged(place).intact, "the files alone do not show it"
        assert again(place, tmp_path / "state").status is Status.DAMAGED


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def test_a_flipped_bit_is_found_and_its_place_is_named(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    make_seal(judged(path), str(tmp_path / "state"))
    flip(path, 30_000)
    found = again(path, tmp_path / "state")
    assert found.status is Status.DAMAGED
    assert "others in bytes 29,696 to 30,208" in found.reason
    assert again(path, tmp_path / "state", deep=False).intact, "a quick check does not read the data"


def test_a_flipped_bit_is_found_also_where_the_time_of_the_file_changed(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    make_seal(judged(path), str(tmp_path / "state"))
    flip(path, 30_000, keep_time=False)
    assert again(path, tmp_path / "state").status is Status.DAMAGED


def test_a_later_save_of_the_same_step_is_not_taken_for_rot(tmp_path: Path) -> None:
    import numpy as np

    path = one_file(tmp_path)
    make_seal(judged(path), str(tmp_path / "state"))
    np.save(path, np.random.default_rng(8).random(6250))
    found = again(path, tmp_path / "state")
    assert found.intact
    assert "written anew" in found.warnings[0]
    assert due(verify(str(path)), str(tmp_path / "state")) == [judged(path)]


def test_one_shard_replaced_beside_untouched_ones_is_damage(cases: Path, tmp_path: Path) -> None:
    place = tmp_path / "20"
    shutil.copytree(cases / "good/orbax/manager_composite/ckpt_20", place)
    make_seal(judged(place), str(tmp_path / "state"))
    largest = max((each for each in place.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    largest.write_bytes(os.urandom(largest.stat().st_size))
    verdict = verify_seal(load_seal(str(place), str(tmp_path / "state")) or pytest.fail("no seal"))
    assert [problem.code for problem in verdict.problems] == ["mixed"]


def test_an_edited_text_in_a_sealed_checkpoint_is_said_and_is_no_damage(tmp_path: Path) -> None:
    place = tmp_path / "step-5"
    place.mkdir()
    (place / "config.json").write_text('{"lr": 1}')
    (place / "data.bin").write_bytes(bytes(range(256)) * 40)
    checkpoint = Checkpoint(str(place), 5, "custom", Status.INTACT, "")
    seal = make_seal(checkpoint, str(tmp_path / "state"))
    (place / "config.json").write_text('{"lr": 2}')
    verdict = verify_seal(seal)
    assert not verdict.problems
    assert "config.json" in verdict.warnings[0]


def test_a_missing_and_a_cut_file_are_found_by_a_quick_look_at_the_seal(tmp_path: Path) -> None:
    place = tmp_path / "step-5"
    place.mkdir()
    for name in ("a.bin", "b.bin", "c.bin"):
        (place / name).write_bytes(b"x" * 5000)
    seal = make_seal(Checkpoint(str(place), 5, "custom", Status.INTACT, ""), str(tmp_path / "state"))
    (place / "a.bin").unlink()
    os.truncate(place / "b.bin", 4000)
    assert [problem.file for problem in verify_seal(seal, deep=False).problems] == ["a.bin", "b.bin"]


def test_a_seal_that_holds_makes_a_format_without_checksums_verifiable(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    assert judged(path).unverifiable
    make_seal(judged(path), str(tmp_path / "state"))
    assert not again(path, tmp_path / "state").unverifiable


def test_only_an_intact_checkpoint_is_sealed(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    os.truncate(path, 1000)
    age(path)
    with pytest.raises(SealError, match="damaged"):
        make_seal(judged(path), str(tmp_path / "state"))


def test_seals_are_due_for_the_newest_intact_checkpoints_and_only_once(cases: Path, tmp_path: Path) -> None:
    report = verify(str(cases / "good/tf/mgr"))
    first = due(report, str(tmp_path), keep=2)
    assert [each.step for each in first] == [400, 300]
    for each in first:
        make_seal(each, str(tmp_path))
    assert due(report, str(tmp_path), keep=2) == []
    assert [each.step for each in due(report, str(tmp_path), keep=3)] == [200]


def test_seals_of_checkpoints_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    state = tmp_path / "state"
    make_seal(judged(path), str(state))
    assert prune(str(state)) == 0
    path.unlink()
    assert prune(str(state)) == 1
    assert list((state / "seals").iterdir()) == []


def test_a_seal_is_kept_private_and_a_broken_one_is_no_seal(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    state = tmp_path / "state"
    make_seal(judged(path), str(state))
    assert (state / "seals").stat().st_mode & 0o077 == 0
    place = next((state / "seals").iterdir())
    place.write_text('{"version": 1, "path": "' + str(path) + '", "files": [[1]]}')
    assert load_seal(str(path), str(state)) is None


def test_a_prefix_and_a_template_of_ranks_mean_their_files(tmp_path: Path) -> None:
    for name in (
        "ckpt-4.index",
        "ckpt-4.data-00000-of-00001",
        "ckpt-40.index",
        "ep0-ba1-rank0.pt",
        "ep0-ba1-rank10.pt",
    ):
        (tmp_path / name).write_bytes(b"x")
    assert files_of(str(tmp_path / "ckpt-4"))[1] == ["ckpt-4.data-00000-of-00001", "ckpt-4.index"]
    assert files_of(str(tmp_path / "ep0-ba1-rank{rank}.pt"))[1] == ["ep0-ba1-rank0.pt", "ep0-ba1-rank10.pt"]


def test_the_rate_limit_sleeps_as_long_as_the_bytes_should_have_taken() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(1000, clock=lambda: now[0], sleep=sleep)
    for _ in range(10):
        throttle(500)
    assert now[0] == pytest.approx(5.0)
    now[0] = 100.0
    throttle(500)
    throttle(500)
    assert now[0] == pytest.approx(101.0), "a pause is not followed by a burst"
