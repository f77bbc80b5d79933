"""`chainwatch run` as a process: signals, kills, the lease, one pass, and only looking."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster

from tests.cluster.service import DONE, FAIL, WHEN_TOLD, Service


@pytest.fixture
def service(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, tmp_path)
    yield made
    made.close()


def test_a_daemon_that_is_killed_goes_on_where_it_was_and_sigterm_ends_it_at_once(service: Service) -> None:
    service.behave(WHEN_TOLD)
    first = service.start()
    service.until(lambda: service.chain_state() == "new", "the daemon knows the chain")
    assert "submitted batch job" in service.run("submit", service.name).stdout
    service.until(lambda: service.chain_state() == "running", "the job runs")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    [job] = service.jobs()
    service.behave(DONE)
    (service.directory / "fail").touch()
    service.cluster.wait(int(job), "FAILED")
    second = service.start()
    service.until(lambda: service.chain_state() == "done", "the chain is done", 90)
    assert len(service.jobs()) == 2
    begun = time.monotonic()
    second.terminate()
    assert second.wait(10) == 0
    assert time.monotonic() - begun < 2.5
    assert "Traceback" not in service.log()
    history = service.json("history", service.name)
    assert [a["cause"] for a in history["attempts"]] == ["network_fabric", "completed"]


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


@pytest.mark.slow(25)
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
