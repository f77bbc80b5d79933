"""`chainwatch sbatch` before a Slurm that takes every job."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.store import open_store

TOOLS = {
    "sbatch": "echo 4711",
    "scontrol": "echo 'ClusterName = alpha'; echo 'SLURM_VERSION = 26.05.5'",
    "squeue": ":",
    "sacct": ":",
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a script, and stand-ins of Slurm's tools on PATH."""
    (tmp_path / "bin").mkdir()
    for name, answer in TOOLS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
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
