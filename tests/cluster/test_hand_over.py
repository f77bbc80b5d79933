"""However the checkpoint is handed over, the job that starts gets the newest intact one: resolved at its start."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
from dev.cluster import PrivateCluster

from chainwatch.cli.__main__ import main

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


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 10, 20 and 30 of one run, as the training script saves them."""
    where = tmp_path_factory.mktemp("trained")
    words = ["--checkpoints", str(where), "--save-every", "10", "--step-seconds", "0", "--save-seconds", "0"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    subprocess.run(
        [sys.executable, str(SOURCE / "dev" / "train.py"), *words, "--megabytes", "0.1", "--steps", "30"],
        env=env, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    for path in where.rglob("*"):
        os.utime(path, times=(path.stat().st_atime, path.stat().st_mtime - 3600))  # nobody writes it any more
    return where


class Stage:
    """A run directory with an intact step 10 and a cut step 20, and one chain."""

    def __init__(self, cluster: PrivateCluster, trained: Path, directory: Path, how: str, *header: str) -> None:
        self.cluster, self.trained, self.directory = cluster, trained, directory
        self.env = {**cluster.env, "PYTHONPATH": str(SOURCE / "src"), "CHAINWATCH_STATE": str(directory / "state")}
        self.checkpoints = directory / "checkpoints"
        for step in (10, 20):
            self.save(step)
        state = self.checkpoints / "global_step20" / "mp_rank_00_model_states.pt"
        os.truncate(state, state.stat().st_size // 3)
        os.utime(state, times=(state.stat().st_atime, state.stat().st_mtime - 3600))
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

    def save(self, step: int) -> str:
        """A step is saved, intact."""
        name = f"global_step{step}"
        shutil.copytree(self.trained / name, self.checkpoints / name)
        (self.checkpoints / "latest").write_text(name)
        return str(self.checkpoints / name)

    def chainwatch(self, *words: str) -> str:
        """A command, in this process: most of a command's time is Python's start."""
        out, err = io.StringIO(), io.StringIO()
        quiet = redirect_stdout(out), redirect_stderr(err)
        with chdir(self.directory), patch.dict(os.environ, self.env, clear=True), quiet[0], quiet[1]:
            code = main(list(words))
        assert code == 0, err.getvalue()
        return out.getvalue()

    def submit(self) -> int:
        return int(self.chainwatch("submit", "hand", "-c", "chainwatch.yaml").split()[-1])

    def look(self) -> None:
        """One pass of the daemon."""
        self.chainwatch("run", "chainwatch.yaml", "--once")

    def got(self, job: int) -> str:
        log = self.directory / f"log-{job}.txt"
        self.cluster.until(lambda: log.exists() and "got=" in log.read_text(), 60, f"job {job} printed what it got")
        return log.read_text().split("got=", 1)[1].splitlines()[0]


@pytest.mark.parametrize("how", list(_READS))
def test_the_job_gets_the_intact_step_and_not_the_cut_one(
    how: str, cluster: PrivateCluster, trained: Path, tmp_path: Path
) -> None:
    stage = Stage(cluster, trained, tmp_path, how)
    assert stage.got(stage.submit()) == str(stage.checkpoints / "global_step10")


@pytest.mark.parametrize("how", ["command", "file", "pointer", "set_aside"])
def test_a_job_that_was_pending_for_long_gets_what_is_newest_when_it_starts(
    how: str, cluster: PrivateCluster, trained: Path, tmp_path: Path
) -> None:
    stage = Stage(cluster, trained, tmp_path, how, "#SBATCH --hold")
    job = stage.submit()
    newer = stage.save(30)
    stage.look()
    cluster.run("scontrol", "release", str(job))
    assert stage.got(job) == newer


def test_a_job_that_takes_no_variables_of_the_shell_gets_it_in_every_way(
    cluster: PrivateCluster, trained: Path, tmp_path: Path
) -> None:
    """`--export=NONE` drops the environment of the submission; what is handed over must come through all the same."""
    source = f"export PYTHONPATH={SOURCE / 'src'} PATH=$PATH:/usr/bin:/bin"
    submitted: dict[str, tuple[Stage, int]] = {}
    for how in _READS:
        (tmp_path / how).mkdir()
        stage = Stage(cluster, trained, tmp_path / how, how, "#SBATCH --export=NONE", source)
        submitted[how] = stage, stage.submit()
    got = {how: stage.got(job) for how, (stage, job) in submitted.items()}
    assert got == {how: str(stage.checkpoints / "global_step10") for how, (stage, _) in submitted.items()}


@pytest.mark.parametrize("how", ["command", "file", "pointer", "set_aside"])
def test_a_requeued_job_gets_what_is_newest_then(
    how: str, cluster: PrivateCluster, trained: Path, tmp_path: Path
) -> None:
    wait = '[ -n "$SLURM_RESTART_COUNT" ] || { echo first; sleep 300; }'
    stage = Stage(cluster, trained, tmp_path, how, "#SBATCH --requeue", "#SBATCH --open-mode=append", wait)
    job = stage.submit()
    cluster.wait(job, "RUNNING")
    log = tmp_path / f"log-{job}.txt"
    cluster.until(lambda: log.exists() and "first" in log.read_text(), 30, "the first run began")
    stage.look()
    newer = stage.save(30)
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
