"""A gigabyte of log is diagnosed by its relevant part: in half a second and 64 MB, whatever it ends in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SIZE = 1 << 30
SECONDS = 0.5
MEGABYTES = 64
STEPS = b"".join(
    b"[rank%d]: step: %d  loss: %.4f  memory: 60.00GiB(75.00%%)  tps: 7,123  mfu: 41.00%%\n"
    % (i % 8, i, 2 + i % 7 / 10)
    for i in range(12_000)
)
ENDS = {
    "an error": b"Traceback (most recent call last):\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "nothing that explains it": b"",
    "a line of a megabyte": b"x" * (1 << 20) + b"\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "errors of every rank": b"".join(b"[rank%d]: ConnectionResetError: [Errno 104] reset\n" % i for i in range(20_000)),
}
MEASURE = """
import json, re, sys, time
from chainwatch.cli.diagnose import run
from chainwatch.signatures import builtin_matcher
builtin_matcher()
began = time.process_time()
assert run(["--log", sys.argv[1], "--state", "FAILED", "--json"]) == 0
cpu = time.process_time() - began
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]  # ru_maxrss remembers the parent's
print(json.dumps([cpu, int(peak) / 1024]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def gigabyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "train.log"
    with path.open("wb") as file:
        while file.tell() < SIZE:
            file.write(STEPS)
    return path


@pytest.mark.parametrize("end", ENDS)
def test_a_gigabyte_of_log_is_diagnosed_by_its_relevant_part(
    gigabyte: Path, end: str, benchmark: pytest.FixtureRequest
) -> None:
    def measured() -> tuple[float, float]:
        os.truncate(gigabyte, SIZE)
        with gigabyte.open("ab") as file:
            file.write(b"\n" + ENDS[end])
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(gigabyte)], capture_output=True, text=True, check=True
        )  # fmt: skip
        cpu, peak = json.loads(done.stderr.splitlines()[-1])
        return cpu, peak

    cpu, peak = benchmark.pedantic(measured, rounds=3)  # type: ignore[attr-defined]
    benchmark.extra_info.update(cpu_seconds=round(cpu, 3), peak_megabytes=round(peak))  # type: ignore[attr-defined]
    assert cpu < SECONDS
    assert peak < MEGABYTES
