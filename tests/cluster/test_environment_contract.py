"""A job that the service starts sees what it sees when it is started from a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster

from tests.cluster.service import FAIL, SOURCE, Service

OURS = {"CHAINWATCH_CHAIN", "CHAINWATCH_DIR", "CHAINWATCH_RESUME_FILE", "CHAINWATCH_STATE"}
"""What a job of chainwatch's has besides, as documented."""
OF_THE_JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_GID", "SLURM_TASK_PID", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME",
              "SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR", "TMPDIR")  # fmt: skip
"""What differs between any two jobs of the same script."""
LOOK = """
out=seen-$SLURM_JOB_ID
env -0 > $out.env
{ ulimit -a; ulimit -Ha; } > $out.limits
umask > $out.umask
pwd > $out.directory
"""


@pytest.fixture
def service(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, tmp_path)
    yield made
    made.close()


def seen(service: Service, job: str) -> dict[str, object]:
    """What the job of this id saw."""
    at = service.directory / f"seen-{job}"
    pairs = (e.partition("=") for e in at.with_suffix(".env").read_text(errors="surrogateescape").split("\0") if e)
    variables = {name: value for name, _, value in pairs if name not in OF_THE_JOB}
    return {
        "environment": variables,
        "limits": at.with_suffix(".limits").read_text(),
        "umask": at.with_suffix(".umask").read_text(),
        "directory": at.with_suffix(".directory").read_text(),
    }


def test_a_job_of_the_hardened_service_is_like_a_job_from_the_shell(service: Service) -> None:
    directory, name = service.directory, service.name
    service.behave(LOOK + FAIL)
    shell = {
        **service.environment,
        "MY_MODULES": "cuda/12 nccl",
        "MULTI": "two\nlines = here",
        "ÜNI": "ö",
        "SBATCH_QOS": "no-such-qos",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    typed = f"umask 027; exec {shlex.join([sys.executable, '-m', 'chainwatch.cli', 'submit', name, '-c', 'conf.yaml'])}"
    subprocess.run(["bash", "-c", typed], env=shell, cwd=directory, check=True, capture_output=True)
    first = service.jobs()[0]
    service.cluster.wait(int(first), "FAILED")

    # The daemon: nothing in its environment, its own umask, directory and limits, as a hardened unit has them.
    bare = {n: v for n, v in service.environment.items() if n in {"PATH", "SLURM_CONF", "HOME"}}
    bare |= {"PYTHONPATH": str(SOURCE), "NOTIFY_SOCKET": "", "INVOCATION_ID": "x", "SBATCH_ACCOUNT": "nobody"}
    daemon = [sys.executable, "-m", "chainwatch.cli", "run", str(directory / "conf.yaml"), "--once"]
    hardened = f"umask 077; ulimit -S -n 300; ulimit -l 64; ulimit -c 0; cd /; exec {shlex.join(daemon)}"

    def resubmitted() -> bool:
        done = subprocess.run(["bash", "-c", hardened], env=bare, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return len(service.jobs()) > 1

    service.until(resubmitted, "the daemon resubmits", 90)
    second = service.jobs()[1]
    service.cluster.wait(int(second), "FAILED")

    by_hand = {n: v for n, v in shell.items() if not n.startswith(("SBATCH_", "CHAINWATCH_", "PYTEST_"))}
    plain = f"umask 027; exec sbatch --parsable --job-name={name} --time=10 --no-requeue train.sh"
    done = subprocess.run(
        ["bash", "-c", plain], env=by_hand, cwd=directory, capture_output=True, text=True, check=True
    )  # fmt: skip
    third = done.stdout.strip()
    service.cluster.wait(int(third), "FAILED")

    from_shell = seen(service, third)
    for job in (first, second):
        from_service = seen(service, job)
        ours, theirs = from_service.pop("environment"), dict(from_shell)["environment"]
        assert isinstance(ours, dict)
        assert isinstance(theirs, dict)
        assert set(ours) >= OURS
        # A shell's notes about itself are not captured: bash writes them anew in the job.
        notes = {"_", "SHLVL", "OLDPWD", "PWD", "PYTHONPATH", "SLURM_JOB_DEPENDENCY"} | OURS
        assert {n: v for n, v in ours.items() if n not in notes} == {n: v for n, v in theirs.items() if n not in notes}
        assert from_service == {k: v for k, v in from_shell.items() if k != "environment"}
    assert seen(service, second)["umask"] == "0027\n"
    assert seen(service, second)["directory"] == f"{os.path.realpath(directory)}\n"
