"""However the checkpoint is handed over, the job that starts gets the newest intact one: resolved at its start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster

SOURCE = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "chainwatch.cli"]

_READS = {
    "command": f'echo "got=$({sys.executable} -m chainwatch.cli latest checkpoints)"',
    "file": 'echo "got=$(cat $CHAINWATCH_RESUME_FILE)"',
    "pointer": 'echo "got=$PWD/checkpoints/$(cat checkpoints/latest)"',
    "set_aside": 'echo "got=$(ls -d $PWD/checkpoints/global_step* | sort -V | tail -n 1)"',
    "variable": 'echo "got=$CHAINWATCH_RESUME_FROM"',
    "argument": 'echo "got=${1#--resume=}"',
}
"""How the script of each test finds its checkpoint."""


class Stage:
    """A run directory with an intact step 10 and a cut step 20, and one chain."""

    def __init__(self, cluster: PrivateCluster, directory: Path, how: str, *header: str) -> None:
        self.cluster, self.directory = cluster, directory
        self.env = {**cluster.env, "PYTHONPATH": str(SOURCE / "src"), "CHAINWATCH_STATE": str(directory / "state")}
        self.checkpoints = directory / "checkpoints"
        self.train("checkpoints", 20)
        state = self.checkpoints / "global_step20" / "mp_rank_00_model_states.pt"
        os.truncate(state, state.stat().st_size // 3)
        fixed = "" if how not in {"variable", "argument"} else "    sbatch: [--no-requeue]\n"
        lines = [
            "#!/bin/bash",
            "#SBATCH --job-name=hand --ntasks=1",
            "#SBATCH --output=log-%j.txt",
            *header,
            _READS[how],
        ]
        (directory / "job.sh").write_text("\n".join([*lines, ""]))
        (directory / "chainwatch.yaml").write_text(
            f"state: state\npoll: 2s\nchains:\n  hand:\n    batch: job.sh\n{fixed}"
            f"    checkpoints: {{directory: checkpoints, hand_over: {how}, settle: 1s}}\n"
        )

    def train(self, where: str, steps: int) -> None:
        words = ["--checkpoints", where, "--save-every", "10", "--step-seconds", "0", "--save-seconds", "0"]
        script = str(SOURCE / "dev" / "train.py")
        env = {k: v for k, v in self.env.items() if not k.startswith("SLURM_PROC")}
        subprocess.run(
            [sys.executable, script, *words, "--megabytes", "0.1", "--resume", "auto", "--steps", str(steps)],
            cwd=self.directory, env=env, check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def chainwatch(self, *words: str) -> str:
        done = subprocess.run(
            [*CLI, *words], cwd=self.directory, env=self.env, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self) -> int:
        return int(self.chainwatch("submit", "hand", "-c", "chainwatch.yaml").split()[-1])

    def look(self) -> None:
        """One pass of the daemon."""
        self.chainwatch("run", "chainwatch.yaml", "--once")

    def got(self, job: int) -> str:
        log = self.directory / f"log-{job}.txt"
        self.cluster.until(lambda: log.exists() and "got=" in log.read_text(), 60, f"job {job} printed what it got")
        return log.read_text().split("got=", 1)[1].splitlines()[0]

    def save_newer(self) -> str:
        """Somebody saves step 30, intact."""
        self.train("elsewhere", 30)
        newer = self.checkpoints / "global_step30"
        shutil.copytree(self.directory / "elsewhere" / "global_step30", newer)
        (self.checkpoints / "latest").write_text("global_step30")
        return str(newer)


@pytest.mark.parametrize("how", list(_READS))
def test_the_job_gets_the_intact_step_and_not_the_cut_one(how: str, cluster: PrivateCluster, tmp_path: Path) -> None:
    stage = Stage(cluster, tmp_path, how)
    assert stage.got(stage.submit()) == str(stage.checkpoints / "global_step10")


@pytest.mark.parametrize("how", ["command", "file", "pointer", "set_aside"])
def test_a_job_that_was_pending_for_long_gets_what_is_newest_when_it_starts(
    how: str, cluster: PrivateCluster, tmp_path: Path
) -> None:
    stage = Stage(cluster, tmp_path, how, "#SBATCH --hold")
    job = stage.submit()
    newer = stage.save_newer()
    stage.look()
    cluster.run("scontrol", "release", str(job))
    assert stage.got(job) == newer


@pytest.mark.parametrize("how", ["command", "pointer", "set_aside"])
def test_a_job_without_any_variables_of_ours_gets_it_too(how: str, cluster: PrivateCluster, tmp_path: Path) -> None:
    source = f"export PYTHONPATH={SOURCE / 'src'} PATH=$PATH:/usr/bin:/bin"
    stage = Stage(cluster, tmp_path, how, "#SBATCH --export=NONE", source)
    assert stage.got(stage.submit()) == str(stage.checkpoints / "global_step10")


@pytest.mark.parametrize("how", ["command", "file", "pointer", "set_aside"])
def test_a_requeued_job_gets_what_is_newest_then(how: str, cluster: PrivateCluster, tmp_path: Path) -> None:
    wait = '[ -n "$SLURM_RESTART_COUNT" ] || { echo first; sleep 300; }'
    stage = Stage(cluster, tmp_path, how, "#SBATCH --requeue", "#SBATCH --open-mode=append", wait)
    job = stage.submit()
    cluster.wait(job, "RUNNING")
    cluster.until(lambda: "first" in (tmp_path / f"log-{job}.txt").read_text(), 30, "the first run began")
    stage.look()
    newer = stage.save_newer()
    cluster.run("scontrol", "requeue", str(job))
    cluster.wait(job, "PENDING")
    cluster.run("scontrol", "hold", str(job))
    stage.look()
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    cluster.run("scontrol", "release", str(job))
    assert stage.got(job) == newer


def test_a_fixed_hand_over_is_refused_where_slurm_may_requeue_the_job(cluster: PrivateCluster, tmp_path: Path) -> None:
    (tmp_path / "chainwatch.yaml").write_text(
        "chains:\n  a:\n    batch: x.sh\n    checkpoints: {directory: c, hand_over: variable}\n"
    )
    done = subprocess.run(
        [*CLI, "check", "chainwatch.yaml"], cwd=tmp_path, env={**cluster.env, "PYTHONPATH": str(SOURCE / "src")},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--no-requeue" in done.stderr
