"""Checkpoints that the real torch writes now, whole and cut. Runs where torch is installed (it is no dependency)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import Status, verify
from chainwatch.checkpoints.files import examine

torch: Any = pytest.importorskip("torch")


def state() -> dict[str, Any]:
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8).to(torch.bfloat16)
    )
    shared = torch.arange(100)
    return {
        "model": model.state_dict(),
        "views": [shared[10:20], shared[::2], shared],
        "parameter": torch.nn.Parameter(torch.ones(3, dtype=torch.float64)),
        "odd": [torch.zeros(0), torch.tensor(5), torch.tensor(True), torch.zeros(2, 2, dtype=torch.complex64)],
        "small": [torch.zeros(9, dtype=torch.float8_e4m3fn), torch.zeros(4, dtype=torch.uint16)],
        "sparse": torch.eye(4).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.rand(8), 0.1, 0, torch.qint8),
        "rng": torch.get_rng_state(),
        "step": 300,
        "long": list(range(3000)),
        "big": 1 << 200,
    }


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 4])
def test_what_torch_saves_is_intact_and_every_cut_is_found(legacy: bool, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_300.pt"
    value = state()
    if legacy:
        for key in ("small", "sparse", "quantized"):
            del value[key]
    torch.save(value, path, _use_new_zipfile_serialization=not legacy, pickle_protocol=protocol)
    for deep in (False, True):
        found = verify(str(path), deep=deep).checkpoints[0]
        assert (found.status, found.step, found.warnings) == (Status.INTACT, 300, ()), found.reason
    data = path.read_bytes()
    random.seed(0)
    for cut in {*range(1, 60), *(random.randrange(len(data)) for _ in range(200))}:
        path.write_bytes(data[: len(data) - cut])
        assert not examine(str(path)).ok


def test_a_distributed_checkpoint_is_intact_until_a_shard_is_cut(tmp_path: Path) -> None:
    from torch.distributed import checkpoint

    step = tmp_path / "step-10"
    checkpoint.save(state()["model"], checkpoint_id=str(step), no_dist=True)
    found = verify(str(step), deep=True).checkpoints[0]
    assert (found.status, found.format, found.step) == (Status.INTACT, "dcp", 10), found.reason
    shard = next(step.glob("*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert verify(str(step), settle=-1.0).checkpoints[0].status is Status.DAMAGED
