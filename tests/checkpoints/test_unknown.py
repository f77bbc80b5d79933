"""Saves of no known format: never "no checkpoint yet", which a script takes for leave to start from the beginning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chainwatch.checkpoints import verify
from chainwatch.checkpoints.unknown import unknown_saves
from chainwatch.cli.__main__ import main


def put(path: Path, data: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize("command", ["latest", "verify"])
def test_pickles_with_a_step_in_their_name_are_3_and_named_on_one_line(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for step in range(100, 600, 100):
        put(tmp_path / f"model_{step:06}.pkl")
    assert main([command, str(tmp_path)]) == 3
    assert capfd.readouterr().err == (
        f"chainwatch: 5 files under {tmp_path} look like saves (model_000100.pkl, model_000200.pkl, model_000300.pkl, …), "
        "but none is of a format that chainwatch knows: describe them with --rule (see `chainwatch verify --help`), or "
        "name --format\n"
    )


@pytest.mark.parametrize("name", ["train.py", "notes.txt", "config.json", "step_100"])
@pytest.mark.parametrize("command", ["latest", "verify", "latest --format torch_zip"])
def test_a_file_that_nothing_tells_to_be_a_checkpoint_is_not_called_intact(
    command: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kind: a verdict on bytes that nobody looked at. `latest` would hand a script its own source to resume from."""
    put(tmp_path / name, b"import torch\n" if not name.endswith(".json") else b"{}")
    assert main([*command.split(), str(tmp_path / name)]) == 2
    out, err = capfd.readouterr()
    assert (out, "it is a file, and no checkpoint of a format that is known" in err) == ("", True)


@pytest.mark.parametrize(
    "name",
    ["000100.pickle", "ckpt/agent-7.joblib", "step_100/params.pkl", "100/state.dill", "m_3.pkl.gz", "net-0010.params"],
)
def test_what_looks_like_a_save(name: str, tmp_path: Path) -> None:
    put(tmp_path / name)
    assert unknown_saves(str(tmp_path)) == (name,)
    assert verify(str(tmp_path)).unknown == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "train.log", "slurm-4711.out", "events.out.tfevents.1700000000.n1", "config_2.yaml", "tokenizer_32000.pkl",
        "vocab_32000.pkl", "train_data_0.pkl", "data/x_0.pkl", "cache/0001.pkl", "rng_state_0.pth", "rng_0.pkl",
        "metrics_100.pkl", "memory_snapshot_3.pickle", "model.pkl", "pytorch_model-00001-of-00002.bin", "shard-000001.tar",
        "a/b/model_000100.pkl", "wandb/x_1.pkl", ".hidden_1.pkl", "src/step.py",
    ],
)  # fmt: skip
def test_what_does_not(name: str, tmp_path: Path) -> None:
    put(tmp_path / name)
    assert unknown_saves(str(tmp_path)) == ()
    assert main(["latest", str(tmp_path)]) == 1


def test_empty_files_directories_and_links_to_nothing_are_no_saves(tmp_path: Path) -> None:
    put(tmp_path / "model_1.pkl", b"")
    (tmp_path / "model_2.pkl").mkdir()
    (tmp_path / "model_3.pkl").symlink_to(tmp_path / "gone")
    assert unknown_saves(str(tmp_path)) == ()


def test_who_names_the_format_has_said_what_a_save_is(tmp_path: Path) -> None:
    put(tmp_path / "model_000100.pkl")
    assert main(["latest", str(tmp_path), "--format", "megatron"]) == 1


def test_beside_a_checkpoint_that_is_known_nothing_is_said(
    cases: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(cases / "good/deepspeed/zero2_fp32_w3", run)
    put(run / "model_000100.pkl")
    assert main(["latest", str(run)]) == 0
    assert capfd.readouterr().err == ""
