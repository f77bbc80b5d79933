"""Running jobs on a real Slurm: the one that was stopped is told, and none of the healthy ones is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dev.slurm import PrivateCluster

from chainwatch.store import open_store

SOURCE = Path(__file__).parents[2]
TRAIN = f"{sys.executable} {SOURCE}/dev/train.py --megabytes=0.5 --resume=auto --steps=100000"
RUNS = {
    "healthy": "--save-every=20 --save-seconds=0.1 --step-seconds=0.3",
    "stopped": "--save-every=1000000 --step-seconds=0.3",
    "suspended": "--save-every=1000000 --step-seconds=0.3",
    "saving": "--save-every=60 --save-seconds=40 --step-seconds=0.2",
}


def signal_training(checkpoints: Path, number: signal.Signals) -> None:
    """Signal the training processes that save there, and nothing around them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if f"--checkpoints={checkpoints}".encode() in words and b"python" in words[0]:
            found.append(int(entry.name))
    assert found, "the training runs"
    for pid in found:
        os.kill(pid, number)


def test_a_stopped_job_is_told_and_a_suspended_a_saving_and_a_healthy_one_are_not(
    idle_cluster: PrivateCluster, tmp_path: Path
) -> None:
    cluster = idle_cluster
    env = {**cluster.env, "PYTHONPATH": str(SOURCE / "src"), "CHAINWATCH_STATE": str(tmp_path / "state")}
    chains = []
    for name, words in RUNS.items():
        script = tmp_path / f"{name}.sh"
        script.write_text(
            f"#!/bin/bash\n#SBATCH -n1 --job-name={name} --output={tmp_path}/{name}-%j.log\n"
            f"srun {TRAIN} --checkpoints={tmp_path}/{name} {words}\n"
        )
        chains.append(f"  {name}: {{batch: {script}, checkpoints: {name}, hang: {{alert_after: 12s}}}}")
    (tmp_path / "chainwatch.yaml").write_text("state: state\npoll: 1s\nchains:\n" + "\n".join(chains) + "\n")
    jobs = {}
    for name in RUNS:
        words = [sys.executable, "-m", "chainwatch.cli", "submit", name, "-c", "chainwatch.yaml"]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90, check=True)
        jobs[name] = int(done.stdout.split()[-1])
    daemon = subprocess.Popen(
        [sys.executable, "-m", "chainwatch.cli", "run", "chainwatch.yaml"], cwd=tmp_path, env=env,
        stdout=subprocess.DEVNULL, stderr=(tmp_path / "daemon.log").open("w"),
    )  # fmt: skip
    store = open_store(tmp_path / "state")
    try:

        def told() -> set[str]:
            return {n.key for n in store.undelivered() if ":hang:" in n.key or n.key.startswith("incident")}

        def watched(name: str) -> dict[str, object]:
            record = store.chain(name)
            return dict(record.facts.get("watch") or {}) if record else {}

        cluster.until(lambda: all(int(str(watched(n).get("lives", 0))) >= 5 for n in RUNS), 90, "all are watched")
        cluster.until(lambda: watched("saving").get("step") is not None, 10, "steps are read")
        cluster.run("scontrol", "suspend", str(jobs["suspended"]))
        signal_training(tmp_path / "stopped", signal.SIGSTOP)  # scancel --signal=STOP would make the job STOPPED
        cluster.until(lambda: bool(told()), 60, "somebody is told")
        time.sleep(8)
        assert {key.split(":", 1)[0] for key in told()} == {"stopped"}
        cluster.run("scontrol", "resume", str(jobs["suspended"]))
        signal_training(tmp_path / "stopped", signal.SIGCONT)
        cluster.until(lambda: all(n.recovered for n in store.undelivered() if ":hang:" in n.key), 60, "taken back")
        assert all(cluster.state(job) == "RUNNING" for job in jobs.values()), "none was touched"
    finally:
        daemon.terminate()
        daemon.wait(30)
        store.close()
        print((tmp_path / "daemon.log").read_text()[-3000:])
