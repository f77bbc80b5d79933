"""The program on the nodes: real processes of a pretended job, told apart by what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chainwatch.evidence.probe import read_probe
from chainwatch.job import probe
from chainwatch.model.probe import NodeLook, ProbeReport, RankState

PROGRAM = Path(probe.__file__)
SPIN = "while True: pass"
SLEEP = "import time; time.sleep(600)"


@contextmanager
def rank(
    number: int, what: str, job: str, *, node: str = "n1", step: str = "0", word: str = sys.executable, **more: str
) -> Iterator[int]:
    """A process that believes it is this rank of four, two on each node; `word`: how it was called."""
    environment = {
        "PATH": os.environ["PATH"], "SLURM_JOB_ID": job, "SLURMD_NODENAME": node, "SLURM_STEP_ID": step,
        "SLURM_PROCID": str(number), "SLURM_NODEID": str(number // 2), "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)", **more,
    }  # fmt: skip
    process = subprocess.Popen([word, "-c", what], executable=sys.executable, env=environment)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def look(job: str, *words: str, node: str = "n1", python: str = sys.executable, window: float = 0.5) -> NodeLook:
    return report(job, *words, node=node, python=python, window=window).nodes[0]


def report(job: str, *words: str, node: str = "n1", python: str = sys.executable, window: float = 0.5) -> ProbeReport:
    done = subprocess.run(
        [python, "-I", "-B", "-", job, str(window), "20", *words],
        input=PROGRAM.read_bytes(), capture_output=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, "SLURM_STEP_ID": "7", "SLURMD_NODENAME": node},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return read_probe(done.stdout.decode(), [node])


def test_ranks_are_told_apart_by_what_they_do(old_python: str) -> None:
    job = f"9{os.getpid()}"
    with (
        rank(0, SPIN, job), rank(1, SLEEP, job) as sleeps, rank(2, SLEEP, job, node="n2"),
        rank(3, SLEEP, f"{job}1"), rank(0, SLEEP, job, step="7"),
    ):  # fmt: skip
        time.sleep(0.5)
        seen = look(job)
        assert {(r.number, r.state) for r in seen.ranks} == {(0, RankState.RUNS), (1, RankState.IDLE)}
        assert {(r.expected_here, r.world, r.step) for r in seen.ranks} == {(2, 4, "0")}
        os.kill(sleeps, signal.SIGSTOP)
        stopped = look(job, python=old_python)
        assert {(r.number, r.state) for r in stopped.ranks} == {(0, RankState.RUNS), (1, RankState.STOPPED)}
        os.kill(sleeps, signal.SIGKILL)
        assert [(r.number, r.expected_here) for r in look(job).ranks] == [(0, 2)], "a zombie is no rank any more"
        assert [(r.number, r.state) for r in look(job, node="n2").ranks] == [(2, RankState.IDLE)]


def test_workers_of_torchrun_are_the_ranks_and_their_launcher_is_none() -> None:
    job = f"8{os.getpid()}"
    worker = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    with (
        rank(0, SLEEP, job),
        rank(0, SLEEP, job, RANK="4", LOCAL_RANK="0", **worker),
        rank(0, SLEEP, job, RANK="5", LOCAL_RANK="1", **worker),
    ):
        time.sleep(0.3)
        assert [(r.number, r.expected_here, r.world) for r in look(job, window=0.3).ranks] == [(4, 4, 8), (5, 4, 8)]


def test_children_that_dropped_their_environment_belong_to_their_rank() -> None:
    job = f"7{os.getpid()}"
    child = f"import subprocess; subprocess.run(['env', '-i', {sys.executable!r}, '-c', {SPIN!r}])"
    with rank(1, child, job) as pid:
        time.sleep(0.7)
        seen = look(job)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        try:
            assert [(r.number, r.state) for r in seen.ranks] == [(1, RankState.RUNS)]
        finally:
            for each in children:
                os.kill(int(each), signal.SIGKILL)


def test_stacks_come_from_the_py_spy_of_the_jobs_own_environment(tmp_path: Path) -> None:
    job = f"6{os.getpid()}"
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\necho stacks of $*\n")
    tool.chmod(0o755)
    with rank(1, SLEEP, job, word="python3", PATH=f"{tmp_path}:{os.environ['PATH']}") as pid:
        time.sleep(0.3)
        assert report(job, "stacks", window=0.2).stacks == {1: f"stacks of dump --nonblocking --pid {pid}\n"}
        assert report(job, window=0.2).stacks == {}


def test_a_look_that_hangs_says_so_within_its_time_and_exits_0(tmp_path: Path) -> None:
    slow = tmp_path / "nvidia-smi"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", "-", "123", "0.1", "1"], input=PROGRAM.read_bytes(), capture_output=True, timeout=30,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "n1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "in time" in read_probe(done.stdout.decode(), ["n1"]).nodes[0].problem


def test_gpus_are_read_where_a_tool_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tool(name: str, text: str, code: int = 0) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'E'\n{text}\nE\nexit {code}\n")
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool("nvidia-smi", "0, 100, 0\n1, 0, 3\n2, [N/A], [N/A]")
    assert probe.gpus() == {
        "gpus": [
            {"index": 0, "use": 100, "ecc": 0},
            {"index": 1, "use": 0, "ecc": 3},
            {"index": 2, "use": None, "ecc": None},
        ],
        "gpu_problem": "",
    }
    tool("nvidia-smi", "No devices were found", 6)
    assert probe.gpus() == {"gpus": [], "gpu_problem": "nvidia-smi: No devices were found"}
    (tmp_path / "nvidia-smi").unlink()
    tool("rocm-smi", '{"card0": {"GPU use (%)": "97"}, "system": {}}')
    assert probe.gpus()["gpus"] == [{"index": 0, "use": 97, "ecc": None}]
    tool(
        "dmesg",
        "[  5.1] NVRM: Xid (PCI:0000:41:00): 13, old\n[ 99.5] NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off",
    )
    ticks = os.sysconf("SC_CLK_TCK")
    ((ago, text),) = probe.kernel_faults(50 * ticks)
    assert text == "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off"
    assert abs(ago - (time.clock_gettime(time.CLOCK_MONOTONIC) - 99.5)) < 5
