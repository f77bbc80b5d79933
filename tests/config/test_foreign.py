"""Whoever comes from another tool is told what its words are called here."""

from __future__ import annotations

import pytest

from chainwatch.config import foreign, shape
from chainwatch.config.models import Chain
from tests.config.writing import Desk


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("sweep", "did you mean `each`?"),
        ("matrix", "did you mean `each`?"),
        ("array", "an array of one task at a time is a chain by `sbatch: [--array=0-9%1]`; a chain of each task"),
        ("retries", "here; did you mean `chains.a.recovery.retries`?"),
        ("max_restarts", "did you mean `recovery.retries`?"),
        ("max-retries", "did you mean `recovery.retries`?"),
        ("requeue", "chainwatch resubmits by itself (`recovery`); Slurm's own requeue is `sbatch: [--requeue]`"),
        ("partition", "what sbatch is asked for stands in the script, or in `sbatch: [--partition=…]`"),
        ("time", "what sbatch is asked for stands in the script, or in `sbatch: [--time=…]`"),
        ("walltime", "what sbatch is asked for stands in the script, or in `sbatch: [--time=…]`"),
        ("cpus_per_task", "what sbatch is asked for stands in the script, or in `sbatch: [--cpus-per-task=…]`"),
        ("nodes", "what sbatch is asked for stands in the script, or in `sbatch: [--nodes=…]`"),
        ("cmd", "did you mean `batch`?"),
        ("ckpt_dir", "did you mean `checkpoints`?"),
        ("max_steps", "did you mean `done.step`?"),
        ("recoverry", "did you mean `recovery`?"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(desk: Desk, key: str, said: str) -> None:
    joint = " " if said.startswith("here") else "; "
    [problem] = desk.chain_problems(f"{key}: 3")
    assert problem.startswith(f"4: chains.a.{key}: is not a known key{joint}{said}")


def test_the_same_is_said_in_defaults_and_nowhere_else(desk: Desk) -> None:
    [problem] = desk.problems("defaults: {max_restarts: 3}\nchains: {a: {batch: x}}\n")
    assert problem == "1: defaults.max_restarts: is not a known key; did you mean `recovery.retries`?"
    [problem] = desk.problems("partition: gpu\nchains: {a: {batch: x}}\n")
    assert "sbatch" not in problem


def test_a_script_where_live_or_pinned_is_expected_is_told_its_place(desk: Desk) -> None:
    [problem] = desk.chain_problems("script: train.sh")
    assert problem.endswith(
        "`live` or `pinned` is expected, not 'train.sh'; the batch script itself is named by `batch`"
    )


def test_every_key_that_is_named_exists_and_no_key_of_ours_is_called_foreign() -> None:
    for ours in foreign._RENAMED:
        here = Chain
        for part in ours.split("."):
            assert part in shape.keys(here), ours
            here = shape.below(here, part)
    assert not {key for key in shape.keys(Chain) if foreign.meant(key)}
