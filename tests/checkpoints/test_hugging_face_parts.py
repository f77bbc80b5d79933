"""What the libraries of Hugging Face write beside the usual: several models, adapters, directories of any name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from chainwatch.checkpoints import Checkpoint, Status, verify
from tests.checkpoints import torch_files
from tests.checkpoints.test_other_layouts import age

SAVED = (
    "pytorch_model.bin",
    "pytorch_model_1.bin",
    "optimizer.bin",
    "optimizer_1.bin",
    "scheduler.bin",
    "scheduler_1.bin",
)


def saved(run: Path, name: str, files: Sequence[str] = SAVED) -> Path:
    (run / name).mkdir(parents=True)
    for each in (*files, "random_states_0.pkl"):
        torch_files.save(run / name / each, {})
    return run / name


def judged(step: Path) -> Checkpoint:
    age(step.parent)
    os.utime(step, (1.7e9, 1.7e9))
    return verify(str(step)).checkpoints[0]


@pytest.mark.parametrize("first", SAVED[::2])
def test_where_there_is_a_second_model_there_was_a_first(first: str, tmp_path: Path) -> None:
    step = saved(tmp_path, "checkpoint_1")
    assert judged(step).status is Status.INTACT
    (step / first).unlink()
    assert judged(step).status is Status.INCOMPLETE


@pytest.mark.parametrize("second", SAVED[1::2])
def test_a_second_model_is_missed_where_the_neighbours_have_one(second: str, tmp_path: Path) -> None:
    saved(tmp_path, "checkpoint_0")
    step = saved(tmp_path, "checkpoint_1")
    (step / second).unlink()
    assert judged(step).status is Status.INCOMPLETE


def test_a_save_under_a_name_of_its_own_is_known_without_its_random_states(tmp_path: Path) -> None:
    step = saved(tmp_path, "after_warmup_300")
    assert (judged(step).format, judged(step).step) == ("accelerate", 300)
    (step / "random_states_0.pkl").unlink()
    assert (judged(step).format, judged(step).status) == ("accelerate", Status.INCOMPLETE)


ADAPTER = ("adapter_model.bin", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")


def adapter(run: Path, name: str, config: str) -> Path:
    (run / name).mkdir(parents=True)
    for each in ADAPTER:
        torch_files.save(run / name / each, {})
    (run / name / "adapter_config.json").write_text(config)
    step = name.rpartition("-")[2]
    (run / name / "trainer_state.json").write_text(f'{{"global_step": {step}}}\n')
    return run / name


def test_an_adapters_configuration_has_no_newline_at_its_end(tmp_path: Path) -> None:
    step = adapter(tmp_path, "checkpoint-8", '{"r": 4}')
    found = judged(step)
    assert (found.status, found.format) == (Status.INTACT, "peft"), found.reason
    (step / "trainer_state.json").write_text('{"global_step": 8}')
    assert judged(step).status is Status.DAMAGED, "this one has"


def test_a_broken_neighbour_is_no_witness_of_how_a_text_ends(tmp_path: Path) -> None:
    step = adapter(tmp_path, "checkpoint-8", '{"r": 4}')
    adapter(tmp_path, "checkpoint-12", '{"r": 4\n')
    assert judged(step).status is Status.INTACT
