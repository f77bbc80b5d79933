"""`python -m dev.matrix [--check] [PLAN…]`: every row, side by side; the table; the README's block.

Exit code 1 where a case failed. A row that cannot be run here, or that failed, is said with its reason and leaves the
README as it was; `--check` writes nothing into the checkout at all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.matrix.row import PLANS, Case, Plan, Row, dump, parse, read
from dev.matrix.table import put, terminal

HERE = Path(__file__).resolve().parents[2]
RESULT = HERE / "dev" / "matrix" / "result.json"
README = HERE / "README.md"
PATIENCE = 900.0
"""Seconds for one row, a cold cache included."""


def main(argv: list[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dev.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="*", choices=[[], *(plan.name for plan in PLANS)], metavar="PLAN")
    parser.add_argument("--check", action="store_true", help="write nothing into the checkout")
    parser.add_argument("--again", action="store_true", help="what failed beside others is played once more, alone")
    parser.add_argument("--side-by-side", type=int, default=3, help="rows at once (they mostly wait)")
    chosen = parser.parse_args(argv)
    plans = [plan for plan in PLANS if not chosen.plans or plan.name in chosen.plans]
    # Each row is driven by a process of its own; threads only wait for them.
    with (
        tempfile.TemporaryDirectory(prefix="chainwatch-matrix-") as work,
        ThreadPoolExecutor(chosen.side_by_side) as pool,
    ):
        rows = list(pool.map(lambda plan: one(plan, Path(work)), plans))
        if chosen.again:
            rows = [row if row.good else one(row.plan, Path(work) / "again") for row in rows]
    print(terminal(rows))
    before = read(RESULT)
    known = {row.plan.name: row for row in (*before, *(row for row in rows if row.good and not row.not_run))}
    after = tuple(known[plan.name] for plan in PLANS if plan.name in known)
    if chosen.check:
        if after != before:
            print("matrix: this differs from the README's block, which is left as it is", file=sys.stderr)
    else:
        RESULT.write_text(dump(after))
        README.write_text(put(README.read_text(), after))
        print(f"matrix: {RESULT.relative_to(HERE)} and the README's block are written", file=sys.stderr)
    return 0 if all(row.good for row in rows) else 1


def one(plan: Plan, work: Path) -> Row:
    """Run one row in a process of its own. A process that breaks is a row that failed."""
    work.mkdir(exist_ok=True)
    result = work / f"{plan.name}.json"
    argv = [sys.executable, "-m", "dev.matrix.play", plan.name, str(result)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE / "src"), str(HERE)])}
    try:
        done = subprocess.run(argv, cwd=HERE, env=environment, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        how = f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        how = f"not within {PATIENCE:g} s"
    if not result.exists():
        return Row(plan, cases=(Case("the row is run to its end", "failed", how),))
    return parse(result.read_text())[0]


if __name__ == "__main__":
    sys.exit(main())
