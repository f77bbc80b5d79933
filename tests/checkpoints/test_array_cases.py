"""Real checkpoints of JAX, TensorFlow, Keras and numpy, whole and damaged, each judged as it is known to be.

`data/array_cases.tsv` lists them: written by the real libraries, damaged by killed saves and by hand. The archive keeps
modes, times, links and empty directories.
"""

from __future__ import annotations

import csv
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import Checkpoint, RunReport, verify

DATA = Path(__file__).parent / "data"
ROWS = list(csv.DictReader((DATA / "array_cases.tsv").open(), delimiter="\t"))
NOBODY = 65534


@pytest.fixture(scope="module")
def cases() -> Iterator[Path]:
    """The unpacked archive, where another user can read it too."""
    where = Path(tempfile.mkdtemp(prefix="chainwatch-cases-"))
    where.chmod(0o755)
    with tarfile.open(DATA / "array_cases.tar.xz") as archive:
        archive.extractall(where, filter="fully_trusted")
    yield where
    shutil.rmtree(where)


def look(path: Path, row: dict[str, str], deep: bool) -> RunReport:
    settle = 1e10 if row["verdict"] == "in-progress" else 300.0
    as_nobody = row["kind"] == "chmod000" and os.geteuid() == 0
    if as_nobody:
        os.seteuid(NOBODY)
    try:
        return verify(str(path), deep=deep, settle=settle)
    finally:
        if as_nobody:
            os.seteuid(0)


def expected(row: dict[str, str], deep: bool) -> str:
    hidden = row["level"] == "none" or (row["level"] == "deep" and not deep)
    return "intact" if hidden else row["verdict"].replace("-", "_")


def the_one(report: RunReport, path: Path) -> Checkpoint:
    return next(each for each in report.checkpoints if each.path == str(path))


def name_of(row: Any) -> str:
    return str(row["path"]) if isinstance(row, dict) else ""


@pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_real_checkpoint_is_judged_as_it_is_known_to_be(cases: Path, row: dict[str, str], deep: bool) -> None:
    path, run = cases / row["path"], cases / row["run_dir"]
    for report in (look(path, row, deep), look(run, row, deep)):
        checkpoint = the_one(report, path)
        assert checkpoint.status.value == expected(row, deep), checkpoint.reason
        assert checkpoint.step == int(row["step"])
        assert checkpoint.format == row["format"]
        assert checkpoint.reason
        if row["level"] == "-":
            assert not checkpoint.warnings
        if row["level"] == "none":
            assert checkpoint.unverifiable


def seen_in(row: dict[str, str], deep: bool) -> bool:
    """Can this check see what is wrong anywhere in the run of this row?"""
    levels = {each["level"] for each in ROWS if each["run_dir"] == row["run_dir"]}
    return "none" not in levels and (deep or "deep" not in levels)


@pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])
@pytest.mark.parametrize("run", sorted({row["run_dir"] for row in ROWS}))
def test_the_newest_intact_step_of_a_real_run_is_found(cases: Path, run: str, deep: bool) -> None:
    rows = [row for row in ROWS if row["run_dir"] == run]
    row = next((each for each in rows if each["kind"] in ("in_progress", "chmod000", "marker_unfinished")), rows[0])
    if not seen_in(row, deep):
        pytest.skip("this check cannot see what is wrong here; the seal tests do")
    newest = look(cases / run, {**row, "verdict": "intact"}, deep).newest_intact
    assert ("none" if newest is None else str(newest.step)) == row["newest_intact"]
