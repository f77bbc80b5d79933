"""Every file of every real directory checkpoint, removed, emptied, cut, zeroed, unlinked or with one bit flipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chainwatch.checkpoints import Checkpoint, Status, verify

STEPS = (
    "good/deepspeed/zero0_fp32_w2/global_step30",
    "good/deepspeed/zero1_resize_w4to2/global_step30",
    "good/deepspeed/zero2_fp32_w3/global_step30",
    "good/deepspeed/zero3_fp32_w4/global_step30",
    "good/hf_trainer/ddp_w2/checkpoint-12",
    "good/hf_trainer/sharded/checkpoint-12",
    "good/hf_deepspeed/zero2_w2/checkpoint-12",
    "good/hf_fsdp/sharded_w2/checkpoint-12",
    "good/peft/lora/checkpoint-12",
    "good/accelerate/safe_w1/checkpoints/checkpoint_3",
    "good/dcp/w2/step_30",
    "good/dcp/hfst_w2/step_30",
    "good/megatron/torch_dist_w2/iter_0000300",
    "bad/megatron/tracker_older/run/iter_0000200",
)
NOT_NEEDED = ("generation_config.json",)
"""A resume does not read it: what is wrong with it is a warning at most."""


def removed(path: Path) -> Status:
    path.unlink()
    return Status.INCOMPLETE


def emptied(path: Path) -> Status:
    path.write_bytes(b"")
    return Status.DAMAGED


def cut_in_half(path: Path) -> Status:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return Status.DAMAGED


def without_its_last_byte(path: Path) -> Status:
    path.write_bytes(path.read_bytes()[:-1])
    return Status.DAMAGED


def with_a_lost_tail(path: Path) -> Status:
    data = path.read_bytes()
    kept = int(len(data) * 0.6)
    path.write_bytes(data[:kept] + bytes(len(data) - kept))
    return Status.DAMAGED


def a_link_to_nothing(path: Path) -> Status:
    path.unlink()
    path.symlink_to("../gone")
    return Status.DAMAGED


DAMAGES = (removed, emptied, cut_in_half, without_its_last_byte, with_a_lost_tail, a_link_to_nothing)


def settled(path: Path) -> None:
    for folder, names, files in os.walk(path):
        for name in (*names, *files, "."):
            os.utime(os.path.join(folder, name), (1.7e9, 1.7e9), follow_symlinks=False)


def judged(run: Path, step: Path, deep: bool = False) -> Checkpoint:
    settled(run)
    alone = verify(str(step), deep=deep).checkpoints[0]
    among = next(each for each in verify(str(run), deep=deep).checkpoints if each.path == str(step))
    assert among.status is alone.status
    return alone


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_happens_to_one_file_is_seen(
    step: str, damage: Callable[[Path], Status], cases: Path, tmp_path: Path
) -> None:
    source = cases / step
    files = sorted(str(each.relative_to(source)) for each in source.rglob("*") if each.is_file())
    run = tmp_path / "run"
    shutil.copytree(source.parent, run)
    for name in files:
        if name in NOT_NEEDED:
            continue
        path = run / source.name / name
        before = path.read_bytes()
        want = damage(path)
        seen = judged(run, run / source.name)
        if name.endswith(".safetensors") and damage is with_a_lost_tail:
            assert seen.status is Status.INTACT, "nothing proves it"
            assert any(name in warning and "zeros" in warning for warning in seen.warnings)
        else:
            assert seen.status is want, f"{name}: {seen.reason}"
            assert any(name.startswith(problem.file) or problem.file in name for problem in seen.problems)
        path.unlink(missing_ok=True)
        path.write_bytes(before)
    assert judged(run, run / source.name).status is not Status.DAMAGED


@pytest.mark.parametrize("step", STEPS)
def test_a_flipped_bit_in_a_tensor_is_seen_by_deep_or_the_checkpoint_is_called_unverifiable(
    step: str, cases: Path, tmp_path: Path
) -> None:
    import zipfile

    source = cases / step
    run = tmp_path / "run"
    shutil.copytree(source.parent, run)
    seen_one = False
    for path in sorted((run / source.name).rglob("*")):
        if path.suffix not in (".pt", ".pth", ".bin"):
            continue
        before = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            largest = max(archive.infolist(), key=lambda info: info.file_size)
        data = bytearray(before)
        lengths = data[largest.header_offset + 26 : largest.header_offset + 30]
        start = (
            largest.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        )
        data[start + largest.file_size // 2] ^= 4
        path.write_bytes(data)
        assert judged(run, run / source.name, deep=True).status is Status.DAMAGED
        path.write_bytes(before)
        seen_one = True
    if not seen_one:
        assert verify(str(source), deep=True).checkpoints[0].unverifiable
