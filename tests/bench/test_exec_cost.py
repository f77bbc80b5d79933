"""What `chainwatch exec` takes from a job: at most 25 MB, and a thousandth of a core."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.job.conftest import Task
from tests.job.test_exec import checkpoint

SECONDS = 20.0
MOST_MEMORY = 25e6
MOST_SHARE = 0.001


def spent(pid: int) -> float:
    """Seconds of CPU of all threads of a process so far."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def memory(pid: int) -> float:
    """The largest resident size so far, bytes."""
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) * 1024.0


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_exec_is_light(benchmark: Any, tmp_path: Path) -> None:
    task = Task(tmp_path)
    checkpoint(task.run, 10)
    program = "print('ready', flush=True); input()"
    process = task.start(
        "--checkpoints", "run", sys.executable, "-c", program, start_new_session=True, stdin=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)  # the first beat

    def idle() -> float:
        pids = [process.pid, *children(process.pid)]
        before = {pid: spent(pid) for pid in pids}
        time.sleep(SECONDS)
        return sum(spent(pid) - before[pid] for pid in pids) / SECONDS

    share = benchmark.pedantic(idle, rounds=1, iterations=1)
    largest = memory(process.pid)
    benchmark.extra_info.update(share_of_a_core=share, megabytes=largest / 1e6)
    print(f"chainwatch exec: {largest / 1e6:.1f} MB, {share:.5%} of a core")
    process.communicate("\n", timeout=30)
    assert largest < MOST_MEMORY
    assert share < MOST_SHARE
