"""The night as the demo tells it: readable by somebody who has never seen it."""

from __future__ import annotations

import pytest
from dev.telling import Telling

LONG = (
    "22:35:02   night: resubmits: Job 3 ended: damaged checkpoint (FAILED 1:0): RuntimeError: PytorchStreamReader failed "
    "reading zip archive; resumes from global_step10, not from global_step20, which is incomplete  "
    "(state=waiting decision=resubmit)"
)


@pytest.mark.parametrize("width", [60, 80, 110])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(width: int) -> None:
    told = list(Telling(width).daemon(LONG))
    assert all(len(line) <= width for line in told)
    words = " ".join(line.split("| ", 1)[1].strip() for line in told).split()
    assert words == LONG.replace("(state=waiting decision=resubmit)", "").split()
    assert all(line.startswith("          | ") for line in told)


def test_what_the_log_says_for_programs_is_left_out_and_what_it_says_in_brackets_for_people_is_not() -> None:
    (line,) = Telling(140).daemon("22:34:38   night: job 1 ended (FAILED)  (state=recovering attempt=1)")
    assert line.endswith("| 22:34:38  night: job 1 ended (FAILED)")
    (plain,) = Telling(140).daemon("22:34:38   night: job 1 is running  (state=running exclude=n[1-2],n4)")
    assert plain.endswith("night: job 1 is running")


def test_decisions_stand_out_on_a_terminal_that_knows_colours() -> None:
    bold = list(Telling(200, colours=True).daemon(LONG))
    assert all(line.startswith("\033[1m") and line.endswith("\033[0m") for line in bold)
    (dim,) = Telling(200, colours=True).daemon("22:34:38   night: job 1 is running")
    assert dim.startswith("\033[2m")
    assert "\033" not in "".join(Telling(200).daemon(LONG))


def test_a_line_that_is_none_of_the_log_is_told_too() -> None:
    assert list(Telling().daemon("Traceback (most recent call last):")) == [
        "          | Traceback (most recent call last):"
    ]
    assert list(Telling().daemon("")) == ["          |"]


def test_the_stage_says_when() -> None:
    assert list(Telling().stage(3.14, "node n2 is lost\nand back")) == [
        "[  3.1 s] node n2 is lost",
        "[  3.1 s] and back",
    ]


def test_the_table_puts_what_slurm_said_beside_what_was_found() -> None:
    preempted = {"number": 1, "job": "1", "state": "FAILED", "exit_code": "1:0", "cause": "preemption", "ours": True,
                 "resumed_from": None, "step": 20, "saved_step": 10}  # fmt: skip
    theirs = {**preempted, "number": 2, "cause": None, "ours": False, "step": None}
    resumed = {**preempted, "number": 3, "state": "TIMEOUT", "exit_code": None, "resumed_from": "/run/global_step10"}
    head, *rows = Telling().table([preempted, theirs, resumed])
    assert "Slurm said" in head
    assert [r.split() for r in rows] == [
        ["1", "1", "FAILED", "1:0", "preemption", "the", "beginning", "step", "20", "step", "10"],
        ["2", "1", "FAILED", "1:0", "-", "the", "script", "chose", "-", "step", "10"],
        ["3", "1", "TIMEOUT", "preemption", "global_step10", "step", "20", "step", "10"],
    ]
