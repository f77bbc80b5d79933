"""`chainwatch exec` on a real Slurm: signals arrive once however they are sent, one choice for all tasks, an end record."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dev.slurm import PrivateCluster

from tests.job.test_exec import COUNTER, checkpoint

ROOT = Path(__file__).parents[2]
EXEC = f"env PYTHONPATH={ROOT / 'src'} {sys.executable} -m chainwatch.cli exec"


def records(directory: Path, job: int) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted(directory.glob(f".chainwatch/jobs/{job}-*/end-*.json"))]


def counted(cluster: PrivateCluster, directory: Path, script: str, *signal: str) -> tuple[int, list[str]]:
    """A job whose program counts its SIGUSR1; what its tasks counted after `scancel` with these words."""
    (directory / "count.py").write_text(COUNTER)
    job = cluster.sbatch(script, "-n2", "-N2", cwd=directory)
    tasks = 2 if "srun" in script else 1
    cluster.until(lambda: cluster.job_log(job).count("ready") == tasks, 30, "the program is ready")
    time.sleep(0.3)
    cluster.run("scancel", *signal, str(job))
    cluster.wait(job, "COMPLETED", "FAILED", timeout=40)
    return job, [line for line in cluster.job_log(job).splitlines() if line.isdigit()]


@pytest.mark.parametrize("signal", [("--signal=USR1",), ("--full", "--signal=USR1")])
def test_a_program_under_srun_gets_a_signal_once(
    idle_cluster: PrivateCluster, tmp_path: Path, signal: tuple[str, ...]
) -> None:
    script = f"trap : USR1\nsrun {EXEC} -- {sys.executable} count.py & wait; wait"
    job, counts = counted(idle_cluster, tmp_path, script, *signal)
    assert counts == ["1", "1"]
    assert [[name for name, _ in r["signals"]] for r in records(tmp_path, job)] == [["SIGUSR1"]] * 2


@pytest.mark.parametrize("signal", [("--batch", "--signal=USR1"), ("--full", "--signal=USR1")])
def test_a_program_that_is_the_batch_script_gets_a_signal_once(
    idle_cluster: PrivateCluster, tmp_path: Path, signal: tuple[str, ...]
) -> None:
    job, counts = counted(idle_cluster, tmp_path, f"exec {EXEC} -- {sys.executable} count.py", *signal)
    assert counts == ["1"]
    assert records(tmp_path, job)[0]["exit_code"] == 0


def test_all_tasks_of_a_step_resume_from_one_checkpoint_and_the_exit_code_is_kept(
    idle_cluster: PrivateCluster, tmp_path: Path
) -> None:
    good = checkpoint(tmp_path / "run", 10)
    checkpoint(tmp_path / "run", 20, cut=True)
    told = "sh -c 'echo from $CHAINWATCH_RESUME_FROM; test $SLURM_PROCID = 0 || kill -9 $$'"
    job = idle_cluster.sbatch(f"srun {EXEC} --checkpoints run -- {told}", "-n4", "-N2", cwd=tmp_path)
    idle_cluster.wait(job, "FAILED", "COMPLETED")
    log = idle_cluster.job_log(job)
    assert log.splitlines().count(f"from {good}") == 4
    assert log.count("step 20 is passed over") == 1, "said by one task"
    ends = {r["rank"]: r for r in records(tmp_path, job)}
    assert [ends[rank]["signal"] for rank in (1, 2, 3)] == [9, 9, 9]
    assert ends[0]["exit_code"] == 0
    assert {r["node"] for r in ends.values()} == {"n1", "n2"}


def test_a_node_that_is_not_fit_ends_the_job_with_75(idle_cluster: PrivateCluster, tmp_path: Path) -> None:
    check = 'test "$SLURMD_NODENAME" != n2 || { echo no fan; false; }'
    script = f"srun --kill-on-bad-exit {EXEC} --preflight '{check}' -- sleep 20"
    job = idle_cluster.sbatch(script, "-n2", "-N2", "--nodelist=n1,n2", cwd=tmp_path)
    idle_cluster.wait(job, "FAILED")
    (bad,) = [r for r in records(tmp_path, job) if r.get("preflight")]
    assert (bad["bad_node"], bad["exit_code"]) == ("n2", 75)
    assert "no fan" in bad["preflight"]
