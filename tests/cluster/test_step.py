"""`chainwatch step` on a real Slurm: a chain from its start to its proven end, and no daemon anywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster

from chainwatch.model.verdict import Cause
from chainwatch.store import open_store
from tests.cluster.service import SOURCE, Service

STEP = f"PYTHONPATH={SOURCE} {sys.executable} -m chainwatch.cli step"
SCRIPT = f"""#!/bin/bash
#SBATCH --output=%x-%j.out
{STEP} || exit 0
echo training
. ./behaviour
"""


@pytest.fixture
def service(idle_cluster: PrivateCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(idle_cluster, tmp_path)
    (tmp_path / "train.sh").write_text(SCRIPT)
    text = (tmp_path / "conf.yaml").read_text()
    (tmp_path / "conf.yaml").write_text(text.replace("--no-requeue]", "--no-requeue, --qos=extra]"))
    yield made
    made.close()


def logs(service: Service) -> dict[int, str]:
    """What each job of the chain printed, by job id."""
    found = {p.stem.rsplit("-", 1)[1]: p for p in service.directory.glob(f"{service.name}-*.out")}
    return {int(job): path.read_text() for job, path in found.items()}


def trains(service: Service, number: int) -> int | None:
    """The id of the chain's job `number`, once it has passed its step and another one stands by."""
    training = sorted(job for job, text in logs(service).items() if "\ntraining" in text and "stands by" in text)
    return training[number - 1] if len(training) >= number else None


def wait(service: Service, number: int) -> int:
    service.until(lambda: trains(service, number), f"job {number} of the chain trains: {logs(service)}", 120)
    found = trains(service, number)
    assert found is not None
    return found


@pytest.mark.slow(50)
def test_a_chain_goes_through_preemption_and_time_limit_to_its_end_without_any_daemon(
    idle_cluster: PrivateCluster, service: Service
) -> None:
    submitted = service.run("submit", service.name, "-c", "conf.yaml")
    assert submitted.returncode == 0, submitted.stderr
    first = wait(service, 1)
    node = idle_cluster.run("squeue", "-h", "-j", str(first), "-o", "%N").stdout.strip()
    urgent = ("--qos=normal", "--exclusive", f"--nodelist={node}", "--time=1")
    idle_cluster.sbatch("sleep 1", *urgent, "--job-name=urgent")
    second = wait(service, 2)
    idle_cluster.run("scontrol", "update", f"JobId={second}", "EndTime=now+1")
    service.behave("sleep 5; echo training finished")
    third = wait(service, 3)
    service.until(lambda: service.chain_state() == "done", f"the chain is done: {logs(service)}", 120)
    last = max(logs(service))
    service.until(lambda: "done" in logs(service)[last], "the last job says why it does nothing")
    assert "\ntraining" not in logs(service)[last]
    with closing(open_store(service.state)) as store:
        causes = [a.verdict.cause for a in store.attempts(service.name) if a.verdict is not None]
    assert causes[:2] == [Cause.PREEMPTION, Cause.TIME_LIMIT]
    assert sorted(logs(service)) == [first, second, third, last], "one job at a time, and none beside them"
    time.sleep(1)
    assert idle_cluster.run("squeue", "-h", f"--name={service.name}", "-o", "%i").stdout.split() in ([], [str(last)])


@pytest.mark.slow(20)
def test_a_step_of_a_paused_chain_does_not_train_and_one_outside_a_job_says_so(
    idle_cluster: PrivateCluster, service: Service
) -> None:
    assert service.run("submit", service.name, "-c", "conf.yaml").returncode == 0
    first = wait(service, 1)
    assert service.run("pause", service.name, "--why", "new data").returncode == 0
    idle_cluster.run("scontrol", "update", f"JobId={first}", "EndTime=now+1")
    service.until(lambda: len(logs(service)) == 2, "the standby began", 90)
    last = max(logs(service))
    service.until(lambda: "new data" in logs(service)[last], "it says why it stops", 90)
    idle_cluster.wait(last, "COMPLETED", timeout=30)
    assert "\ntraining" not in logs(service)[last]
    outside = service.run("step", service.name)
    assert (outside.returncode, outside.stderr.count("\n")) == (2, 1)
    assert "outside a job" in outside.stderr
