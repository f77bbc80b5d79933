"""The matrix of releases: its table leaves nothing out, and the README shows what the last run found."""

from __future__ import annotations

from pathlib import Path

import dev.matrix.__main__ as matrix
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


def test_the_block_is_one_table_with_a_line_for_each_row_and_a_note_for_each_reason() -> None:
    lines = block([RAN, Row(PLAN, not_run="no network"), RAN]).splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 3
    assert {line.count("|") for line in rows} == {5}
    assert rows[2] == rows[4] == "| 24.11.5 | `cli` | 1 passed, 1 failed, 1 skipped (1) | 2 |"
    assert "not run: no network" in rows[3]
    assert [line for line in lines if line[:2] in ("1.", "2.", "3.")] == [
        "1. skipped: no nodes",
        "2. exit codes are cut",
    ]


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


@pytest.mark.parametrize(("second", "code"), [("passed", 0), ("failed", 1)])
def test_what_failed_beside_others_is_played_once_more_and_no_oftener(
    monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    results = iter(["failed", second, "passed"])
    monkeypatch.setattr(matrix, "one", lambda plan, _: Row(plan, "26.05.0", (Case("a", next(results), "late"),)))
    assert matrix.main(["--check", "--again", "simulated"]) == code
    assert next(results) == "passed"  # nobody asked a third time
