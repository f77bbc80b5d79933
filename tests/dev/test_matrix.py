"""The matrix of releases: its table leaves nothing out, and the README shows what the last run found."""

from __future__ import annotations

from pathlib import Path

import pytest
from dev.matrix.__main__ import README, RESULT
from dev.matrix.row import PLANS, Case, Plan, Row, dump, parse, read
from dev.matrix.table import BEGIN, END, block, put, terminal

from chainwatch.slurm.contract import CASES

PLAN = Plan("24.11-cli", "24.11", "cli", "trixie")
RAN = Row(
    PLAN,
    "24.11.5",
    (Case("a", "passed"), Case("b", "failed", "it is late"), Case("c", "skipped", "no nodes")),
    ("exit codes are cut",),
)


def test_the_readme_shows_what_the_last_run_found() -> None:
    rows = read(RESULT)
    assert block(rows) in README.read_text()


def test_every_plan_was_run_and_passed() -> None:
    rows = read(RESULT)
    assert [row.plan for row in rows] == list(PLANS)
    known = {case.name for case in CASES}
    for row in rows:
        assert row.version, row.plan
        assert not row.not_run, row.plan
        # A case that is newer than the last run is none of its business; a quarter of them missing is.
        assert len(known & {case.name for case in row.cases}) > 0.75 * len(known), row.plan
        assert not row.count("failed"), row.plan
        assert all(case.why for case in row.cases if case.result == "skipped"), row.plan


def test_the_block_is_one_table_with_a_line_for_each_row() -> None:
    lines = block([RAN, Row(PLAN, not_run="no network")]).splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    assert len(lines) == 2 + 2 + 2
    assert {line.count("|") for line in lines[1:-1]} == {5}
    assert "1 of 3 cases, 1 failed (skipped: no nodes)" in lines[3]
    assert "exit codes are cut" in lines[3]
    assert "not run: no network" in lines[4]


def test_a_new_block_replaces_the_old_one_and_nothing_else() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = put(text, [RAN])
    assert once == f"before\n{block([RAN])}\nafter\n"
    assert put(once, [RAN]) == once
    with pytest.raises(ValueError, match="no markers"):
        put("nothing here", [RAN])


def test_the_terminal_names_every_failure_every_skip_and_every_row_that_was_not_run() -> None:
    told = terminal(
        [RAN, Row(PLAN, not_run="a chroot needs root"), Row(PLAN, "25.05.1", note="the suite has moved on")]
    )
    for sentence in ("b: it is late", "c: no nodes", "NOT RUN: a chroot needs root", "the suite has moved on"):
        assert sentence in told


def test_rows_survive_the_way_through_json(tmp_path: Path) -> None:
    assert parse(dump([RAN])) == (RAN,)
    assert read(tmp_path / "nothing.json") == ()
    assert not RAN.good
