"""Every row of CASES.tsv: the verdict on the checkpoint alone, within its run, and the newest intact one of the run."""

from __future__ import annotations

import csv
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chainwatch.checkpoints import newest_intact, verify
from chainwatch.checkpoints.formats import FORMATS
from chainwatch.model.checkpoint import Checkpoint, Status

from .conftest import DATA

NOBODY = 65534


class Row(NamedTuple):
    path: str
    format: str
    verdict: str
    step: str
    newest_intact: str
    level: str
    kind: str
    why: str
    run_dir: str


def rows() -> list[Row]:
    with open(DATA / "CASES.tsv", encoding="utf-8") as table:
        return [row for row in (Row(**each) for each in csv.DictReader(table, delimiter="\t")) if row.format in FORMATS]


def run_levels() -> dict[str, set[str]]:
    """What it takes to see all that is wrong in each run."""
    levels: dict[str, set[str]] = {}
    for row in rows():
        levels.setdefault(row.run_dir, set()).add("other user" if row.kind == "chmod000" else row.level)
    return levels


RUN_LEVELS = run_levels()


class Answer(NamedTuple):
    """What was said of one row's path, alone and among its run."""

    alone: Checkpoint
    in_run: Checkpoint | None
    newest: int | None
    newest_found: int | None


def ask(run: Path, path: Path, deep: bool) -> Answer:
    report = verify(str(run), deep=deep)
    found = newest_intact(str(run), deep=deep)
    return Answer(
        alone=verify(str(path), deep=deep).checkpoints[0],
        in_run=next((each for each in report.checkpoints if each.path == str(path)), None),
        newest=report.newest_intact.step if report.newest_intact else None,
        newest_found=found.step if found else None,
    )


def ask_as_nobody(run: Path, path: Path) -> Answer:
    """Root may read a file of mode 000; its owner may not, so the question is asked by a child that owns the run."""
    if os.getuid() != 0:
        return ask(run, path, False)
    for folder, names, files in os.walk(run):
        for name in (".", *names, *files):
            os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)
    back, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(back)
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = ask(run, path, False)
            os.write(out, json.dumps([answer.alone, answer.in_run, answer.newest, answer.newest_found]).encode())
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(back, "rb") as pipe:
        alone, in_run, newest, found = json.loads(pipe.read())
    os.waitpid(child, 0)

    def revived(values: list[Any]) -> Checkpoint:
        return Checkpoint(*values)._replace(status=Status(values[3]))

    return Answer(revived(alone), revived(in_run), newest, found)


def freshen(path: Path) -> None:
    now = time.time()
    for folder, _, names in os.walk(path):
        for name in names:
            os.utime(os.path.join(folder, name), (now, now))
        os.utime(folder, (now, now))
    os.utime(path, (now, now))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.path)
def test_each_real_case_gets_its_verdict(row: Row, cases: Path, tmp_path: Path) -> None:
    run, path = cases / row.run_dir, cases / row.path
    if row.verdict == "in-progress":
        copy = tmp_path / "run"
        shutil.copytree(run, copy, symlinks=True)
        run, path = copy, copy / path.relative_to(run)
        freshen(path)
    levels = RUN_LEVELS[row.run_dir]
    answer = ask_as_nobody(run, path) if "other user" in levels else ask(run, path, "deep" in levels)
    want = row.verdict.replace("-", "_")
    for seen in (answer.alone, answer.in_run):
        if seen is None:
            assert not path.exists(), "a checkpoint that is there is listed with its run"
            continue
        assert str(seen.step) == row.step
        assert seen.format == row.format
        if row.level == "-":
            assert (seen.status, tuple(seen.warnings)) == (Status.INTACT, ()), seen.reason
        elif row.level in ("quick", "deep"):
            assert seen.status == want, seen.reason
            assert seen.problems
            assert seen.reason
        elif row.level == "none":
            assert seen.status is Status.INTACT, seen.reason
            assert seen.unverifiable
        else:
            assert seen.status is Status.DAMAGED or (seen.status is Status.INTACT and seen.warnings), seen.reason
    if not levels & {"none", "heuristic", "semantic"}:
        assert str(answer.newest).lower() == row.newest_intact
        assert answer.newest_found == answer.newest
