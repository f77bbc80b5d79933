"""Diagnosing a log of a gigabyte: how long, how much memory.

    python -m dev.bench.big_log [--size MIB]

Writes one log per style into a temporary directory, diagnoses each in a fresh process, and prints seconds and peak
memory of the process. Wanted for a gigabyte: diagnosis, compiling the signatures included, under 0.5 s, and 64 MiB.
CPU seconds decide, since a busy machine makes the clock's seconds mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STYLES = {
    "megatron": (
        " iteration {i:8d}/ 9999999 | consumed samples: {i:12d} | elapsed time per iteration (ms): 8431.0 | "
        "learning rate: 1.0E-04 | lm loss: 2.104E+00 | loss scale: 1.0 | grad norm: 0.131 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    ),
    "hf_trainer": (
        "{{'loss': 0.4127, 'grad_norm': 2.31, 'learning_rate': 4.2e-06, 'epoch': 0.11}}\n"
        "  1%|1         | {i}/99999999 [2:12:45<2:59:53, 12.28s/it]\r"
    ),
    "torchtitan": "[rank{r}]:2024-10-29 15:02:11,870 - root - INFO - step: {i:8d}  loss: 12.25  memory: 78.9GiB\n",
    "chatty": (
        "2024-10-29 15:02:11,870 INFO trainer step={i} loss=2.1 lr=1e-4 tok/s=51210\n"
        "n{r}:5771:5783 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
        "WARNING: dataloader worker {r} is slow, retrying the shard (not an error)\n"
    ),
}
ENDS = {
    "clean": "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU 3 has 63 GiB.\n",
    "spew": "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU 3 has 63 GiB.\n"
    + "n1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<53735>\n" * 60_000,
}

_CHILD = """
import json, resource, sys, time
begun = time.perf_counter()
from chainwatch.cli.diagnose import run
import io, contextlib
ready, spent = time.perf_counter(), time.process_time()
out = io.StringIO()
with contextlib.redirect_stdout(out):
    run(["--log", sys.argv[1], "--state", "FAILED", "--exit-code", "1:0", "--json"])
done, used = time.perf_counter(), time.process_time() - spent
print(json.dumps({
    "verdict": json.loads(out.getvalue())["cause"],
    "import": ready - begun, "diagnose": done - ready, "cpu": used,
    "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def write_log(path: Path, style: str, end: str, size: int) -> None:
    """A log of `size` bytes in one style, that ends in one way."""
    with path.open("wb") as file:
        step = 0
        while file.tell() < size:
            block = "".join(STYLES[style].format(i=step + n, r=n % 8) for n in range(2000)).encode()
            file.write(block * max(1, min(64, (size - file.tell()) // max(1, len(block)) // 4)))
            step += 2000
        file.write(ENDS[end].encode())


def measure(path: Path) -> dict[str, float | str]:
    """One diagnosis in a fresh process."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True)
    return {"total": time.perf_counter() - begun, **json.loads(done.stdout)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, metavar="MIB")
    size = parser.parse_args().size << 20
    bad = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for style in STYLES:
            for end in ENDS:
                path = Path(folder) / "job.log"
                write_log(path, style, end, size)
                result = measure(path)
                good = result["verdict"] == "oom_gpu" and float(result["cpu"]) < 0.5 and float(result["mib"]) < 64
                bad += not good
                print(
                    f"{style:12} {end:6} {size >> 20:5d} MiB  whole process {result['total']:.2f} s "
                    f"(imports {result['import']:.2f}, diagnosis {result['diagnose']:.2f}, CPU {result['cpu']:.2f})  "
                    f"{result['mib']:.0f} MiB  {result['verdict']}  {'ok' if good else 'NOT AS WANTED'}",
                    flush=True,
                )
                path.unlink()
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
