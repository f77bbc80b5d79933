"""How fast checkpoints are judged, as ratios against something measured in the same run; absolute figures are printed.

Deselected unless benchmarks are asked for (`make bench`): they write some gigabytes.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chainwatch.checkpoints import Status, verify
from chainwatch.checkpoints.files import examine
from tests.bench import checkpoints

GIGABYTES = 2


def median(work: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds; the median of some rounds. What one thread does alone is timed by the processor's clock: other programs
    of the machine do not count."""
    taken = []
    gc.collect()
    for _ in range(rounds):
        began = clock()
        work()
        taken.append(clock() - began)
    return statistics.median(taken)


@pytest.fixture(scope="module", params=[64, 1000])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("torch") / f"ckpt_{request.param}.pt"
    checkpoints.torch_save(path, request.param, GIGABYTES << 30)
    return path, request.param


def test_quick_and_deep_against_testzip(saved: tuple[Path, int], benchmark: pytest.FixtureRequest) -> None:
    path, tensors = saved
    assert examine(str(path), deep=True).ok
    rounds = [
        (
            median(lambda: zipfile.ZipFile(path).testzip(), 1),
            median(lambda: zipfile.ZipFile(path).testzip(), 1, time.process_time),
            median(lambda: examine(str(path)), 20, time.process_time),
            median(lambda: examine(str(path), deep=True), 1),
        )
        for _ in range(5)
    ]
    testzip, alone, quick, deep = (statistics.median(column) for column in zip(*rounds, strict=True))
    benchmark(lambda: examine(str(path)))  # type: ignore[operator]
    print(f"\n{tensors} tensors: testzip {testzip:.3f} s, quick {quick * 1000:.2f} ms, deep {deep:.3f} s")
    assert alone / quick >= (500 if tensors == 64 else 25)
    assert testzip / deep >= 3


def test_a_zero_checkpoint_of_2048_files_and_a_terabyte(tmp_path: Path, benchmark: pytest.FixtureRequest) -> None:
    run = checkpoints.sparse_zero(tmp_path, ranks=1023, bytes_each=1 << 29)
    began = time.perf_counter()
    report = benchmark.pedantic(verify, args=(str(run),), rounds=1)  # type: ignore[attr-defined]
    taken = time.perf_counter() - began
    print(f"\n{report.checkpoints[0].reason}: {taken:.2f} s, {_peak()} MB")
    assert report.checkpoints[0].status is Status.INTACT


def test_a_distributed_checkpoint_of_32000_entries(tmp_path: Path, benchmark: pytest.FixtureRequest) -> None:
    run = checkpoints.distributed(tmp_path, files=64, items=500)
    code = (
        "import sys, time\n"
        "from chainwatch.checkpoints import verify\n"
        "began = time.perf_counter(); report = verify(sys.argv[1])\n"
        # ru_maxrss would count what the parent had before exec
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n"
        "print(report.checkpoints[0].status, time.perf_counter() - began, int(peak) // 1024)"
    )
    done = benchmark.pedantic(  # type: ignore[attr-defined]
        subprocess.run,
        args=([sys.executable, "-c", code, str(run)],),
        kwargs={"capture_output": True, "text": True, "check": True},
        rounds=1,
    )
    status, seconds, peak = done.stdout.split()
    print(f"\n32,000 entries: {float(seconds):.2f} s, {peak} MB")
    assert status == "intact"
    assert int(peak) <= 100


def test_latest_costs_at_most_two_and_a_half_times_a_bare_python(
    tmp_path: Path, benchmark: pytest.FixtureRequest
) -> None:
    for step in (10, 20, 30):
        checkpoints.torch_save(tmp_path / f"ckpt_{step}.pt", 8, 1 << 20)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    entry = "import sys\nfrom chainwatch.cli.__main__ import main\nsys.exit(main())"
    bare = [sys.executable, "-c", "pass"]
    latest = [sys.executable, "-c", entry, "latest", str(tmp_path)]

    def run(command: list[str]) -> float:
        """Seconds of the processor, of all processes that it takes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    run(latest)
    pairs = [(run(bare), run(latest)) for _ in range(30)]
    benchmark.pedantic(run, args=(latest,), rounds=3)  # type: ignore[attr-defined]
    ours, theirs = min(pair[1] for pair in pairs), min(pair[0] for pair in pairs)  # what other processes did not delay
    print(f"\nlatest {ours * 1000:.1f} ms, bare python {theirs * 1000:.1f} ms")
    assert ours / theirs <= 2.5


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
