"""Pipeline layers, experts and universal checkpoints of DeepSpeed, laid out and named as DeepSpeed 0.19 writes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import Checkpoint, Status, verify
from tests.checkpoints import torch_files
from tests.checkpoints.test_other_layouts import age

WORLD = {"dp_world_size": 2, "mp_world_size": 1, "global_steps": 10}
LAYERS = [{f"{layer}.{name}": 0 for layer in range(3) for name in ("weight", "bias")}]
PIPELINE: dict[str, Any] = {
    "mp_rank_00_model_states.pt": {**WORLD, "dp_world_size": 1, "mp_world_size": 2, "param_shapes": LAYERS},
    "mp_rank_01_model_states.pt": {**WORLD, "dp_world_size": 1, "mp_world_size": 2, "param_shapes": [{"3.weight": 0}]},
    **{f"layer_{layer:02d}-model_states.pt": {} for layer in range(4)},
    **{f"bf16_zero_pp_rank_0_mp_rank_{rank:02d}_optim_states.pt": {} for rank in range(2)},
}
TENSOR_PARALLEL: dict[str, Any] = {
    "mp_rank_00_model_states.pt": {**WORLD, "dp_world_size": 1, "mp_world_size": 2, "param_shapes": LAYERS},
    "mp_rank_01_model_states.pt": {**WORLD, "dp_world_size": 1, "mp_world_size": 2, "param_shapes": LAYERS},
    **{f"layer_{layer:02d}-model_{rank:02d}-model_states.pt": {} for layer in range(3) for rank in range(2)},
}
EXPERTS: dict[str, Any] = {
    "mp_rank_00_model_states.pt": {**WORLD, "num_experts": [4, 2]},
    **{f"layer_0_expert_{expert}_mp_rank_00_model_states.pt": {} for expert in range(4)},
    **{f"layer_1_expert_{expert}_mp_rank_00_model_states.pt": {} for expert in range(2)},
    **{f"expp_rank_{rank}_mp_rank_00_optim_states.pt": {} for rank in range(2)},
}
PARAMETER = ("fp32.pt", "exp_avg.pt", "exp_avg_sq.pt", "step.pt")
UNIVERSAL: dict[str, Any] = {
    "zero/optimizer_state.pt": {},
    **{f"zero/{name}/{each}": {} for name in ("a.weight", "a.bias") for each in PARAMETER},
}
SHARDED_UNIVERSAL = {**UNIVERSAL, **{f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt": WORLD for rank in range(2)}}
WHOLE_UNIVERSAL = {**UNIVERSAL, "mp_rank_00_model_states.pt": WORLD}

KINDS = {
    "pipeline": ("global_step10", PIPELINE),
    "tensor parallel": ("global_step10", TENSOR_PARALLEL),
    "experts": ("global_step10", EXPERTS),
    "universal": ("global_step10_universal", WHOLE_UNIVERSAL),
    "universal of ZeRO-3": ("global_step10_universal", SHARDED_UNIVERSAL),
}


def written(run: Path, name: str, files: dict[str, Any]) -> Path:
    for each, value in files.items():
        path = run / name / each
        path.parent.mkdir(parents=True, exist_ok=True)
        torch_files.save(path, value)
    return run / name


def judged(step: Path) -> Checkpoint:
    age(step.parent)
    os.utime(step, (1.7e9, 1.7e9))
    return verify(str(step)).checkpoints[0]


def broken(files: Iterable[Path]) -> Iterable[tuple[Path, str]]:
    for path in files:
        for damage in ("cut", "removed"):
            yield path, damage


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_is_needed_and_looked_into(kind: str, tmp_path: Path) -> None:
    name, files = KINDS[kind]
    step = written(tmp_path, name, files)
    whole = judged(step)
    assert (whole.status, whole.warnings, whole.format, whole.step) == (Status.INTACT, (), "deepspeed", 10), (
        whole.reason
    )
    for path, damage in broken(sorted(each for each in step.rglob("*.pt"))):
        data = path.read_bytes()
        if damage == "cut":
            path.write_bytes(data[:-1])
        else:
            path.unlink()
        found = judged(step)
        # With no neighbour nothing says how many expert-parallel ranks there were.
        last = damage == "removed" and path.name.startswith("expp_rank_1")
        want = Status.INTACT if last else Status.DAMAGED if damage == "cut" else Status.INCOMPLETE
        assert found.status is want, f"{path.name} {damage}: {found.reason}"
        path.write_bytes(data)


def test_the_last_expert_parallel_rank_is_missed_beside_a_neighbour(tmp_path: Path) -> None:
    written(tmp_path, "global_step5", EXPERTS)
    step = written(tmp_path, "global_step10", EXPERTS)
    (step / "expp_rank_1_mp_rank_00_optim_states.pt").unlink()
    assert judged(step).status is Status.INCOMPLETE


def test_a_state_file_of_a_name_that_nobody_knows_is_looked_into(tmp_path: Path) -> None:
    step = written(tmp_path, "global_step10", {**EXPERTS, "later_kind_00_model_states.pt": {}})
    assert judged(step).status is Status.INTACT
    (step / "later_kind_00_model_states.pt").write_bytes(b"PK")
    assert judged(step).status is Status.DAMAGED
