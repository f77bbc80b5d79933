"""From the words of a command line to a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.registering import chain_of


def test_a_relative_working_directory_is_taken_once_by_sbatch_and_by_whoever_adopts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind: a path that was made absolute, and the relative one that goes on beside it. sbatch is called in the
    chain's directory, so that `-D sub` would mean `sub/sub`."""
    monkeypatch.chdir(tmp_path)
    script, sub = tmp_path / "run.sh", tmp_path / "sub"
    script.write_text("#!/bin/sh\n#SBATCH --chdir=sub\n")
    for words in (["-D", "sub"], ["--chdir=sub"], ["-D", str(sub)]):
        chain = chain_of({"cw-checkpoints": "ckpt"}, ["--time=5", *words], str(script), [])
        assert (chain.directory, chain.sbatch) == (sub, ("--time=5", f"--chdir={sub}"))
        assert chain.checkpoints is not None
        assert str(chain.checkpoints.directory) == f"{sub}/ckpt"
        assert chain_of({}, words, str(script), [], directory=str(sub)).sbatch == (f"--chdir={sub}",)
    assert chain_of({}, [], str(script), [], directory=str(sub)).sbatch == (f"--chdir={sub}",), (
        "the job is there already"
    )
    assert chain_of({}, [], str(script), []).sbatch == (), "sbatch reads it from the script, here"
