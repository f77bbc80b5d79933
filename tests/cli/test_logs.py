"""`chainwatch logs`: attempts in a row, ranks merged by time, and a stream that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.config.models import Chain
from chainwatch.evidence.log_stream import Part, Tail, lines, merged, parts, plain
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin
from tests.web.samples import attempt, verdict

ROOT = Path(__file__).parents[2]
NOW = datetime.now(UTC)


def at(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).strftime("%F %T")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A chain of two attempts with logs of their own."""
    script = tmp_path / "job.sh"
    script.touch()
    settings = Chain(batch=script, directory=tmp_path).model_dump(mode="json")
    with_state = tmp_path / "state"
    store = open_store(with_state)
    store.add_chain(
        ChainRecord("run", "alpha", Origin.SBATCH, Mode.ACT, settings, NOW, state=ChainState.RUNNING, sentence="x")
    )
    one = attempt(1, 3, 2, verdict(Outcome.PREEMPTED, Cause.PREEMPTION, "preempted"))
    two = replace(attempt(2, 1, 0, None), ended=None, resumed_from="/run/step_100", saved_before=100)
    for number, each in ((1, one), (2, two)):
        job = replace(each.job, directory=str(tmp_path), stdout=f"out{number}", stderr=f"out{number}")
        store.put_attempt("run", replace(each, job=job))
        (tmp_path / f"out{number}").write_text(f"hello of {number}\nbar 1\rbar 2\rbar 3\n")
    store.close()
    return with_state


def start(state: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "chainwatch.cli", "logs", "run", "--state", str(state), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_attempts_follow_each_other_with_a_line_that_says_how_it_went_on(state: Path) -> None:
    out, err = start(state).communicate(timeout=60)
    shown = out.splitlines()
    assert err == ""
    assert [line for line in shown if not line.startswith("────")] == ["hello of 1", "bar 3", "hello of 2", "bar 3"]
    heads = [line for line in shown if line.startswith("────")]
    assert "attempt 1: job" in heads[0]
    assert "attempt 1 ended" in heads[1]
    assert "resumed from /run/step_100 (step 100)" in heads[2]


def test_one_attempt_can_be_asked_for_and_one_that_is_not_there_is_an_answer(state: Path) -> None:
    assert "hello of 2" not in start(state, "--attempt", "1").communicate(timeout=60)[0]
    process = start(state, "-a", "9")
    assert "no attempt 9" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


@pytest.mark.parametrize("words", [("logs", "run"), ("explain", "run")])
def test_an_attempt_is_named_by_a_word_or_by_an_option_alike(
    state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The kind: one command takes a number as a word, its neighbour only behind an option."""

    def said(*more: str) -> tuple[int, str]:
        code = main([*words, *more, "--state", str(state)])
        return code, capsys.readouterr().out

    assert said("1") == said("-a", "1") == said("--attempt", "1") == said("1", "-a", "1")
    assert said("1")[0] == 0
    assert said("1")[1] != said("2")[1]
    assert said("9")[0] == 1
    assert said("1", "-a", "2")[0] == 2


def test_a_stream_goes_on_and_ends_when_the_chain_is_done(state: Path, tmp_path: Path) -> None:
    process = start(state, "-f", "-n", "1")
    assert process.stdout is not None
    assert "attempt 2" in process.stdout.readline()
    assert [process.stdout.readline() for _ in range(3)] == ["bar 1\n", "bar 2\n", "bar 3\n"], "drawn as it was"
    with (tmp_path / "out2").open("a") as log:
        log.write("more\n")
    assert process.stdout.readline() == "more\n"
    store = open_store(state)
    store.update_chain("run", state=ChainState.DONE, sentence="done: all said")
    store.close()
    out, _ = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "──── done: done: all said ────"
    assert process.returncode == 0


def test_a_stream_leaves_no_attempt_out_however_short_it_was(state: Path, tmp_path: Path) -> None:
    process = start(state, "-f", "-n", "0")
    assert process.stdout is not None
    assert "attempt 2" in process.stdout.readline()
    store = open_store(state)
    two = store.attempts("run")[1]
    died = verdict(Outcome.FAILED, Cause.NETWORK_FABRIC, "the network failed")
    store.put_attempt("run", replace(two, verdict=died, ended=NOW))
    for number in (3, 4):
        one = attempt(number, 0.5 / number, 0.01, died)
        job = replace(one.job, directory=str(tmp_path), stdout=f"out{number}", stderr=f"out{number}")
        (tmp_path / f"out{number}").write_text(f"hello of {number}\n" * 3)
        store.put_attempt("run", replace(one, job=job))
    store.update_chain("run", state=ChainState.STOPPED, sentence="mend it")
    store.close()
    out, _ = process.communicate(timeout=60)
    heads = [line.strip("─ ") for line in out.splitlines() if line.startswith("────")]
    assert [" ".join(head.split()[:3]).rstrip(":") for head in heads] == [
        "attempt 2 ended", "attempt 3: job", "attempt 3 ended", "attempt 4: job", "attempt 4 ended", "stopped: mend it",
    ]  # fmt: skip
    assert [line for line in out.splitlines() if line.startswith("hello")] == ["hello of 3"] * 3 + ["hello of 4"] * 3


def test_ranks_are_merged_by_their_stamps_and_a_traceback_stays_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{at(1)} a1\n  of a1\n{at(3)} a3\n")
    (tmp_path / "b").write_text(f"{at(2)} b2\n{at(4)} b4\n")
    text = b"".join(merged([Part(str(tmp_path / "a"), 0), Part(str(tmp_path / "b"), 0)])).decode()
    assert [line.split()[-1] for line in text.splitlines()] == ["a1", "a1", "b2", "a3", "b4"]


def test_without_stamps_files_come_one_after_the_other_under_their_names(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"of {name}\n")
    text = b"".join(merged([Part(str(tmp_path / n), 0) for n in "ab"])).decode()
    assert text == f"==> {tmp_path}/a <==\nof a\n==> {tmp_path}/b <==\nof b\n"


def test_a_file_that_a_requeue_went_on_writing_is_split_among_its_attempts(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text(f"{at(-600)} first\n" * 3 + f"{at(-5)} second\n" * 2)
    one, two = parts(str(path), [NOW - timedelta(minutes=601), NOW - timedelta(minutes=6)])
    assert [len(list(lines(part))) for part in (one, two)] == [3, 2]


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    assert plain(b"\x1b]0;title\x07\x1b[31mred\x1b[0m\x07\tend\n") == b"red\tend\n"


def test_a_tail_sees_a_file_that_is_cut_or_comes_late(tmp_path: Path) -> None:
    path = tmp_path / "out"
    tail = Tail(str(path), 2)
    assert tail.new() == b""
    path.write_text("1\n2\n3\n4\nhal")
    assert tail.new() == b"3\n4\n"
    with path.open("a") as log:
        log.write("f\n")
    assert tail.new() == b"half\n"
    path.write_text("new\n")
    assert tail.new() == b"new\n"


def test_a_tail_of_no_lines_never_takes_the_whole_file_for_new(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")
    tail = Tail(str(path), 0)
    assert [tail.new(), tail.new()] == [b"", b""]
    with path.open("a") as file:
        file.write("new\n")
    assert tail.new() == b"new\n"
