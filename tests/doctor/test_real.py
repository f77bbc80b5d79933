"""The doctor, init and a service's pass on a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dev.slurm import PrivateCluster

from chainwatch.slurm.contract import CASES

pytestmark = pytest.mark.timeout(180)


def run(cluster: PrivateCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**cluster.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "chainwatch.cli", *arguments],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip


def test_the_doctor_reads_a_real_cluster(cluster: PrivateCluster, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"state: {tmp_path}/state\nslurm: {{conf: {cluster.conf}}}\nchains: {{}}\n")
    done = run(cluster, "doctor", str(config), "--json", "--contract")
    assert done.returncode == 1, done.stderr
    found = {finding["code"]: finding for finding in json.loads(done.stdout)}
    assert cluster.name in found["version"]["what"]
    assert found["accounting"]["level"] == "ok"
    assert "PreemptMode=" in found["preemption"]["what"]
    assert "MinJobAge" in found["min_job_age"]["what"]
    assert "controller" not in found
    assert "clock_skew" not in found
    played = [found[case.name]["level"] for case in CASES if case.read_only]
    assert "problem" not in played
    assert "ok" in played
    assert not [finding for finding in found.values() if "broke with" in finding["what"]]


def test_init_writes_a_configuration_from_a_running_job(cluster: PrivateCluster, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nsrun sleep 300\n")
    submit = ["sbatch", "--parsable", "--job-name=a run", f"--chdir={tmp_path}", str(script), "--lr", "1e-4"]
    job = subprocess.run(submit, env=cluster.env, capture_output=True, text=True, check=True).stdout.strip()
    try:
        done = run(cluster, "init", job, "--output", str(tmp_path / "c.yaml"))
        assert done.returncode == 0, done.stderr
        chain = yaml.safe_load((tmp_path / "c.yaml").read_text())["chains"]["a-run"]
        assert (chain["batch"], chain["mode"], chain["args"]) == (str(script), "observe", ["--lr", "1e-4"])
        assert run(cluster, "check", str(tmp_path / "c.yaml")).returncode == 0
    finally:
        subprocess.run(["scancel", job], env=cluster.env, check=True)


def test_a_single_pass_leaves_metrics_of_a_real_poll(cluster: PrivateCluster, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"state: {tmp_path}/state\nslurm: {{conf: {cluster.conf}}}\nweb: {{textfile: {tmp_path}/m.prom}}\nchains: {{}}\n"
    )
    done = run(cluster, "run", "--once", str(config))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "m.prom").read_text()
    assert f'chainwatch_polls_total{{cluster="{cluster.name}",source="squeue"}} 1.0' in text
    assert "chainwatch_blind 0.0" in text
