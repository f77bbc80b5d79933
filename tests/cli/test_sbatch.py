"""`chainwatch sbatch` before a Slurm that takes every job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.store import open_store
from tests.cli.tools import tools


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a script, and stand-ins of Slurm's tools on PATH."""
    monkeypatch.setenv("PATH", f"{tools(tmp_path)}:/usr/bin:/bin")
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n#SBATCH -J sweep\n")
    return tmp_path


@pytest.mark.parametrize(
    ("array", "chains"),
    [
        ("0-3%1", ["sweep"]),
        ("3", ["sweep"]),
        ("3%4", ["sweep"]),
        ("3,5", ["sweep.3", "sweep.5"]),
        ("0-1%11", ["sweep.0", "sweep.1"]),
    ],
)
def test_an_array_of_one_lane_or_of_one_task_is_one_chain_as_where_it_is_adopted(
    desk: Path, array: str, chains: list[str]
) -> None:
    assert main(["sbatch", f"--array={array}", "train.sh"]) == 0
    store = open_store(desk / "state")
    try:
        assert [c.name for c in store.chains()] == chains
    finally:
        store.close()


def test_a_script_on_standard_input_is_taken_as_sbatch_takes_it(desk: Path) -> None:
    ask = [sys.executable, "-m", "chainwatch.cli", "sbatch"]
    text = "#!/bin/sh\n#SBATCH -J piped\ntrue\n"
    done = subprocess.run(ask, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Submitted batch job 4711\n"), done.stderr
    store = open_store(desk / "state")
    try:
        assert [c.name for c in store.chains()] == ["piped"]
    finally:
        store.close()
