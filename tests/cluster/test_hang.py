"""Running jobs on a real Slurm, side by side: each silence is read rightly, and no healthy job is touched."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
from dev.slurm import PrivateCluster

from chainwatch.cli.__main__ import main
from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause
from chainwatch.store import Store, open_store

SOURCE = Path(__file__).parents[2]
TRAIN = f"{sys.executable} {SOURCE}/dev/train.py --megabytes=0.5 --resume=auto --steps=100000"
LOCKSTEP = f"{sys.executable} {Path(__file__).parent}/lockstep.py"
SAVES = "--checkpoints={here}/{name} --save-every={every} --save-seconds={saves} --step-seconds=0.2"

RUNS = {
    "healthy": (f"-n1 {TRAIN} " + SAVES.format(here="{here}", name="{name}", every=20, saves=0.1), "alert_after: 12s"),
    "suspended": (f"-n1 {LOCKSTEP} {{here}}/{{name}} 0.3", "alert_after: 12s"),
    "saving": (f"-n1 {TRAIN} " + SAVES.format(here="{here}", name="{name}", every=60, saves=40), "alert_after: 12s"),
    "evaluating": (f"-n1 {LOCKSTEP} {{here}}/{{name}} 0.1 60 4", "floor: 9s, startup: 60s"),
    "stalled": (f"-n1 {LOCKSTEP} {{here}}/{{name}} 0.3", "alert_after: 12s"),
    "stopped": (f"-n1 {LOCKSTEP} {{here}}/{{name}} 0.3", "alert_after: 12s"),
    "lost": (f"-N2 -n4 --kill-on-bad-exit=0 {LOCKSTEP} {{here}}/{{name}} 0.3", "alert_after: 12s"),
    "frozen": (f"-N2 -n4 {LOCKSTEP} {{here}}/{{name}} 0.3", "alert_after: 8s, end_job: true, grace: 2s"),
}
"""What each job runs under srun, and its chain's `hang:`."""
TOLD = {"stopped", "lost", "frozen"}


@contextmanager
def file_server(root: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A mounted directory whose server can be stopped: then every access to it hangs, as on a dead NFS server."""
    served, mount = root / "served", root / "mount"
    served.mkdir()
    mount.mkdir()
    server = subprocess.Popen(["bindfs", "-f", str(served), str(mount)])
    try:
        for _ in range(100):
            if os.path.ismount(mount):
                break
            time.sleep(0.1)
        assert os.path.ismount(mount), "bindfs mounts"
        yield mount, server
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", str(mount)], check=False)
        server.terminate()
        server.wait(20)


def processes(words: str, rank: int = 0) -> list[int]:
    """The training processes of that rank whose command holds these words, without their launchers."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode() if entry.name.isdigit() else ""
            environment = (entry / "environ").read_bytes() if words in command else b""
        except OSError:
            continue
        mine = f"\0SLURM_PROCID={rank}\0".encode() in environment and b"\0SLURM_STEP_ID=" in environment
        if mine and Path(command.split()[0]).name.startswith("python"):
            found.append(int(entry.name))
    return found


class Evening:
    """The daemon over all these runs."""

    def __init__(self, cluster: PrivateCluster, root: Path, mount: Path) -> None:
        self.cluster, self.root, self.mount = cluster, root, mount
        self.env = {**cluster.env, "PYTHONPATH": str(SOURCE / "src"), "CHAINWATCH_STATE": str(root / "state")}
        self.jobs: dict[str, int] = {}
        self.store: Store
        chains = []
        for name, (command, hang) in RUNS.items():
            size = "-N2 -n4" if "-N2" in command else "-n1"
            out = mount if name == "stalled" else root
            script = root / f"{name}.sh"
            script.write_text(
                f"#!/bin/bash\n#SBATCH {size} --job-name={name} --output={out}/{name}-%j.log --no-requeue\n"
                f"srun {command.format(here=root, name=name)}\n"
            )
            where = f"checkpoints: {name}, " if "train.py" in command else ""
            chains.append(f"  {name}: {{batch: {script}, {where}recovery: {{backoff: 1s}}, hang: {{{hang}}}}}")
        (root / "chainwatch.yaml").write_text("state: state\npoll: 1s\nchains:\n" + "\n".join(chains) + "\n")

    def chainwatch(self, *words: str) -> str:
        """A command, in this process: most of a command's time is Python's start."""
        out, here = io.StringIO(), os.getcwd()
        os.chdir(self.root)
        try:
            with patch.dict(os.environ, self.env, clear=True), redirect_stdout(out):
                assert main(list(words)) == 0
        finally:
            os.chdir(here)
        return out.getvalue()

    def submit_all(self) -> None:
        for name in RUNS:
            self.jobs[name] = int(self.chainwatch("submit", name, "-c", "chainwatch.yaml").split()[-1])

    @contextmanager
    def daemon(self) -> Iterator[None]:
        log = (self.root / "daemon.log").open("w")
        words = [sys.executable, "-m", "chainwatch.cli", "run", "chainwatch.yaml"]
        daemon = subprocess.Popen(words, cwd=self.root, env=self.env, stdout=subprocess.DEVNULL, stderr=log)
        self.store = open_store(self.root / "state")
        try:
            yield
        finally:
            daemon.terminate()
            daemon.wait(30)
            self.store.close()
            log.close()
            print((self.root / "daemon.log").read_text()[-6000:])

    def until(self, true: object, seconds: float, what: str) -> None:
        self.cluster.until(true, seconds, what)  # type: ignore[arg-type]

    def lives(self, name: str) -> int:
        record = self.store.chain(name)
        watch = record.facts.get("watch") if record else None
        return int(watch.get("lives", 0)) if isinstance(watch, dict) else 0

    def told(self, kind: str = "hang") -> dict[str, str]:
        """Chains that people were told about, with what was said."""
        return {
            n.key.split(":", 1)[0]: str(n.body)
            for n in self.store.undelivered()
            if f":{kind}:" in n.key or n.key.startswith("incident")
        }

    def ended(self, name: str) -> Attempt | None:
        return next((a for a in self.store.attempts(name) if a.verdict is not None), None)


@pytest.mark.slow(70)
@pytest.mark.timeout(300)
def test_each_silence_is_read_rightly_and_no_healthy_job_is_touched(
    idle_cluster: PrivateCluster, tmp_path: Path
) -> None:
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("NO STALLED FILE SYSTEM TESTED: bindfs is missing (as root: dev/install services), or /dev/fuse is")
    with file_server(tmp_path) as (mount, server):
        evening = Evening(idle_cluster, tmp_path, mount)
        evening.submit_all()
        with evening.daemon():
            evening.until(lambda: all(evening.lives(name) >= 5 for name in RUNS), 120, "all are watched")
            idle_cluster.run("scontrol", "suspend", str(evening.jobs["suspended"]))
            for pid in processes(f"{tmp_path}/stopped"):
                os.kill(pid, signal.SIGSTOP)  # scancel --signal=STOP would make the job STOPPED
            for pid in processes(f"{tmp_path}/frozen", rank=3):
                os.kill(pid, signal.SIGSTOP)
            for pid in processes(f"{tmp_path}/lost", rank=2):
                os.kill(pid, signal.SIGKILL)
            server.send_signal(signal.SIGSTOP)

            evening.until(lambda: set(evening.told()) >= TOLD, 90, "the three that hang are told")
            said = evening.told()
            assert "all of its processes are stopped" in said["stopped"]
            assert "rank 2 of 4 is gone" in said["lost"]
            assert "rank 3 on" in said["frozen"]
            assert "stopped (state T)" in said["frozen"]

            evening.until(lambda: evening.ended("frozen"), 90, "the one whose end is asked for is ended")
            frozen = evening.ended("frozen")
            assert frozen is not None
            assert frozen.verdict is not None
            assert frozen.verdict.cause is Cause.HANG
            (culprit,) = frozen.verdict.culprit_nodes
            evening.until(lambda: len(evening.store.attempts("frozen")) == 2, 60, "it goes on")
            shown = idle_cluster.run(
                "scontrol", "show", "job", str(evening.store.attempts("frozen")[1].job.job_id)
            ).stdout
            assert f"ExcNodeList={culprit}\n" in shown

            server.send_signal(signal.SIGCONT)
            idle_cluster.run("scontrol", "resume", str(evening.jobs["suspended"]))
            for pid in processes(f"{tmp_path}/stopped"):
                os.kill(pid, signal.SIGCONT)
            before = {name: evening.lives(name) for name in ("stalled", "suspended", "stopped")}
            evening.until(
                lambda: all(evening.lives(name) > lives for name, lives in before.items()), 60, "all three live again"
            )
            assert "rank 2 of 4 is gone" in evening.chainwatch("probe", "lost"), "a person looks"
            evening.until(
                lambda: all(n.recovered for n in evening.store.undelivered() if n.key.startswith("stopped:hang")),
                60,
                "taken back",
            )
            assert set(evening.told()) == TOLD, "no healthy one was ever told"
            untouched = set(RUNS) - {"frozen"}
            assert {name: idle_cluster.state(evening.jobs[name]) for name in untouched} == dict.fromkeys(
                untouched, "RUNNING"
            )
            assert (
                "chainwatch-probe"
                in idle_cluster.run("sacct", "-nP", "-o", "JobName", "-j", str(evening.jobs["lost"])).stdout
            ), "the look was a step of ours"
