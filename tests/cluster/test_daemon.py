"""`chainwatch run` as a process: signals, kills, the lease, one pass, and only looking."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dev.cluster import PrivateCluster

SOURCE = Path(__file__).parents[2] / "src"
SCRIPT = "#!/bin/bash\n#SBATCH --output=%x-%j.out\n. ./behaviour\n"
CONFIG = """\
state: {state}
poll: 1s
settle: 25s
chains:
  {name}:
    batch: train.sh
    sbatch: [--job-name={name}, --time=10, --no-requeue]
    done: {{mark: training finished}}
    recovery: {{backoff: 1s, backoff_max: 1s, quick_failure: 0s}}
"""
FAIL = "echo 'RuntimeError: NCCL error: remote process exited or there was a network error'; sleep 1; exit 1"
DONE = "echo training finished"


class Service:
    """A configuration with one chain, and chainwatch's commands on it."""

    def __init__(self, cluster: PrivateCluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.name = f"run-{uuid.uuid4().hex[:8]}"
        self.state = directory / "state"
        self.environment = {**cluster.env, "PYTHONPATH": str(SOURCE), "CHAINWATCH_STATE": str(self.state)}
        (directory / "train.sh").write_text(SCRIPT)
        (directory / "conf.yaml").write_text(CONFIG.format(state=self.state, name=self.name))
        self.behave("sleep 600")
        self.daemons: list[subprocess.Popen[str]] = []

    def behave(self, what: str) -> None:
        (self.directory / "behaviour").write_text(what + "\n")

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "chainwatch.cli", *words],
            env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        log = (self.directory / f"daemon-{len(self.daemons)}.log").open("w")
        with log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "chainwatch.cli", "run", "conf.yaml", "--human", *words],
                env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        self.daemons.append(daemon)
        return daemon

    def log(self) -> str:
        return "".join(p.read_text() for p in sorted(self.directory.glob("daemon-*.log")))

    def until(self, true: Callable[[], object], what: str, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while not true():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}\n{self.log()}"
            time.sleep(0.5)

    def chain_state(self) -> str:
        done = self.run("status", "--json")
        return str(json.loads(done.stdout)[0]["state"]) if done.returncode == 0 else ""

    def jobs(self) -> list[str]:
        shown = self.cluster.run("squeue", "-h", "-t", "all", "-o", "%A", f"--name={self.name}").stdout.split()
        known = self.cluster.run("sacct", "-nXP", "-o", "JobIDRaw", f"--name={self.name}", "-S", "now-1hour").stdout
        return sorted({*shown, *known.split()}, key=int)


@pytest.fixture
def service(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, tmp_path)
    yield made
    for daemon in made.daemons:
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()
    cluster.run("scancel", f"--name={made.name}", check=False)


def test_a_daemon_that_is_killed_goes_on_where_it_was_and_sigterm_ends_it_at_once(service: Service) -> None:
    first = service.start()
    service.until(lambda: service.chain_state() == "new", "the daemon knows the chain")
    assert "submitted batch job" in service.run("submit", service.name).stdout
    service.until(lambda: service.chain_state() == "running", "the job runs")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    [job] = service.jobs()
    service.behave(DONE)
    service.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=0:01", check=False)
    service.cluster.wait(int(job), "TIMEOUT", timeout=120)
    second = service.start()
    service.until(lambda: service.chain_state() == "done", "the chain is done", 90)
    assert len(service.jobs()) == 2
    begun = time.monotonic()
    second.terminate()
    assert second.wait(10) == 0
    assert time.monotonic() - begun < 2.5
    assert "Traceback" not in service.log()
    history = service.json("history", service.name)
    assert [a["cause"] for a in history["attempts"]] == ["time_limit", "completed"]


def test_sigterm_ends_a_daemon_within_two_seconds_while_slurm_hangs(
    service: Service, idle_cluster: PrivateCluster
) -> None:
    daemon = service.start()
    service.until(lambda: service.chain_state() == "new", "the daemon knows the chain")
    idle_cluster.freeze("slurmctld")
    time.sleep(3)
    begun = time.monotonic()
    daemon.terminate()
    assert daemon.wait(30) == 0
    assert time.monotonic() - begun < 2.5
    assert "Traceback" not in service.log()


def test_a_second_daemon_finds_the_lease_and_refuses(service: Service) -> None:
    service.start()
    service.until(lambda: service.chain_state() == "new", "the daemon knows the chain")
    refused = service.run("run", "conf.yaml")
    assert refused.returncode == 3
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "Traceback" not in refused.stderr


def test_once_takes_one_step_and_ends_and_several_make_the_whole_way(service: Service) -> None:
    assert service.run("run", "conf.yaml", "--once").returncode == 0
    assert service.chain_state() == "new"
    service.behave(FAIL)
    service.run("submit", service.name)
    service.cluster.wait(int(service.jobs()[0]), "FAILED")
    service.behave(DONE)
    service.until(
        lambda: service.run("run", "conf.yaml", "--once").returncode == 0 and service.chain_state() == "done",
        "the chain is done",
    )
    assert len(service.jobs()) == 2


def test_once_without_an_answer_of_slurm_is_exit_4(service: Service, idle_cluster: PrivateCluster) -> None:
    assert service.run("run", "conf.yaml", "--once").returncode == 0
    idle_cluster.stop_daemon("slurmctld")
    assert service.run("run", "conf.yaml", "--once").returncode == 4
    assert service.chain_state() == "new"


def test_observe_changes_nothing_outside(service: Service) -> None:
    service.behave(FAIL)
    service.run("submit", service.name, "-c", "conf.yaml")
    service.start("--observe")
    service.until(lambda: "would resubmit" in service.log(), "it says what it would do")
    time.sleep(3)
    assert len(service.jobs()) == 1
    assert service.log().count("would resubmit") == 1
    audit = [json.loads(line)["effect"] for line in (service.state / "audit.log").read_text().splitlines()]
    assert audit == ["sbatch"], "the command's own, and no other"
