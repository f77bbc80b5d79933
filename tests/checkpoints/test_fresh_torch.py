"""Checkpoints that the real torch writes now, whole and cut. Runs where torch is installed (it is no dependency)."""

from __future__ import annotations

import io
import pickletools
import random
import re
import struct
import zipfile
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


def boundaries(path: Path) -> set[int]:
    """Where one structure of the file ends and the next begins, as the standard library sees them."""
    data = path.read_bytes()
    found = {0, len(data)}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for record in archive.infolist():
                lengths = struct.unpack("<HH", data[record.header_offset + 26 : record.header_offset + 30])
                begin = record.header_offset + 30 + sum(lengths)
                found |= {record.header_offset, record.header_offset + 30, begin, begin + record.file_size}
            found |= {
                archive.start_dir,
                *(match.start() for match in re.finditer(b"PK(\x01\x02|\x05\x06|\x06[\x06\x07])", data)),
            }
        return found
    stream = io.BytesIO(data)
    for _ in range(5):  # the pickles of the legacy format; the storages lie behind them
        for _, _, position in pickletools.genops(stream):
            found.add(position or 0)
        found.add(stream.tell())
    return found


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
    near = {each + step for each in boundaries(path) for step in (-1, 0, 1)}
    for kept in sorted({*near, *(random.randrange(len(data)) for _ in range(300))} - {len(data)}):
        if 0 <= kept < len(data):
            path.write_bytes(data[:kept])
            assert not examine(str(path)).ok, f"cut at {kept} of {len(data)}"


def test_a_distributed_checkpoint_is_intact_until_a_file_is_cut_anywhere(tmp_path: Path) -> None:
    from torch.distributed import checkpoint

    step = tmp_path / "step-10"
    checkpoint.save(state()["model"], checkpoint_id=str(step), no_dist=True)
    found = verify(str(step), deep=True).checkpoints[0]
    assert (found.status, found.format, found.step) == (Status.INTACT, "dcp", 10), found.reason
    random.seed(0)
    for path in (next(step.glob("*.distcp")), step / ".metadata"):
        data = path.read_bytes()
        items = {match.start() for match in re.finditer(b"PK[\x01-\x06][\x02-\x08]", data)}
        cuts = {*range(1, len(data), 7), *items, len(data) - 1} if path.name == ".metadata" else {*items, len(data) - 1}
        for kept in sorted({*cuts, *(random.randrange(len(data)) for _ in range(200))}):
            path.write_bytes(data[:kept])
            assert verify(str(step), settle=-1.0).checkpoints[0].status is Status.DAMAGED, f"{path.name} cut at {kept}"
        path.write_bytes(data)


def test_what_safetensors_saves_from_torch_is_intact_and_every_cut_is_found(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "step_300.safetensors"
    save_file({name: each.contiguous() for name, each in state()["model"].items()}, path)
    assert verify(str(path), deep=True).checkpoints[0].intact
    data = path.read_bytes()
    for kept in range(0, len(data), 11):
        path.write_bytes(data[:kept])
        assert not examine(str(path)).ok
