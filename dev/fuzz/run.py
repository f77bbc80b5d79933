"""Fuzz every reader for some seconds each: `python -m dev.fuzz.run [--seconds 60] [TARGET …]`.

Needs atheris (no dependency of the project): `make fuzz` makes a virtual environment of its own for it. A finding is
left as `crash-*`, `timeout-*` or `oom-*` in the work folder; put its bytes into a test, then mend the reader.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def fuzz_one(name: str, corpus: Path, seconds: int) -> None:
    """Run the fuzzer in this process; it ends the process itself."""
    import atheris

    with atheris.instrument_imports(include=["chainwatch.checkpoints"]):
        from dev.fuzz.targets import all_targets

        target = all_targets()[name]
    corpus.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        str(corpus),
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-max_len=65536",
        f"-artifact_prefix={corpus.parent}/",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--work", type=Path, default=ROOT / ".fuzz", help="corpus and findings")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fuzz_one(options.targets[0], options.work / options.targets[0], options.seconds)
        return 0
    from dev.fuzz.seeds import write
    from dev.fuzz.targets import all_targets

    write(options.work)
    failed = []
    for name in options.targets or all_targets():
        command = [sys.executable, "-m", "dev.fuzz.run", "--one", name, "--work", str(options.work)]
        done = subprocess.run([*command, "--seconds", str(options.seconds)], cwd=ROOT, capture_output=True, text=True)
        print(f"{name}: {'nothing found' if done.returncode == 0 else 'FOUND something'}", flush=True)
        if done.returncode != 0:
            failed.append(name)
            print(done.stdout[-3000:], done.stderr[-5000:], flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
