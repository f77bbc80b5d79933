"""Proofs of completion, measured and judged: yes, no, and nobody knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from chainwatch.config.models import Done
from chainwatch.diagnosis import judge_completion
from chainwatch.evidence import LogFile, measure_completion
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.verdict import Completion, Proof, RuleFact


def measured(done: dict[str, Any], folder: Path, *logs: Path, step: int | None = None) -> Completion:
    rules = Done.model_validate(done)
    files = [LogFile(str(path)) for path in logs]
    return judge_completion(measure_completion(rules, directory=str(folder), logs=files, step=step), rules.rule)


@pytest.mark.parametrize(
    ("step", "proof"), [(None, Proof.UNKNOWN), (4999, Proof.NO), (5000, Proof.YES), (5001, Proof.YES)]
)
def test_final_step(tmp_path: Path, step: int | None, proof: Proof) -> None:
    assert measured({"step": 5000}, tmp_path, step=step).proof is proof


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["TRAINING DONE", "^TRAINING DONE$", "^TRAINING", "DONE$", "(?i)^training done$"])
def test_a_mark_in_the_log_is_quoted_with_its_line(tmp_path: Path, mark: str, ends: str) -> None:
    """The kind: a pattern that is searched in each line, and whose ^ and $ mean the whole text."""
    log = tmp_path / "log"
    log.write_bytes(ends.join(["step 1", "TRAINING DONE", "bye", ""]).encode())
    done = measured({"mark": mark}, tmp_path, log)
    assert done.proof is Proof.YES
    assert [(line.line, line.text) for line in done.proving] == [(2, "TRAINING DONE")]


def test_anchors_of_a_mark_hold_for_a_line_and_for_what_a_progress_bar_wrote_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("not TRAINING DONE\nTRAINING DONE soon\n")
    assert measured({"mark": "^TRAINING DONE$"}, tmp_path, log).proof is Proof.NO
    log.write_text("50%\rTRAINING DONE\rbye\n")
    assert measured({"mark": "^TRAINING DONE$"}, tmp_path, log).proof is Proof.YES


def test_n_tasks_leave_n_marks_over_all_logs(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("task 1 finished\ntask 2 finished finished\n")
    second.write_text("task 3 finished\n")
    rule = {"mark": {"pattern": "finished", "count": 3}}
    assert measured(rule, tmp_path, first).proof is Proof.NO
    assert measured(rule, tmp_path, first, second).proof is Proof.YES


def test_a_log_that_cannot_be_read_is_unknown_and_not_a_missing_mark(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("nothing\n")
    assert measured({"mark": "done"}, tmp_path, log, tmp_path / "gone").proof is Proof.UNKNOWN
    assert measured({"mark": "done"}, tmp_path).proof is Proof.UNKNOWN


@pytest.mark.parametrize(
    ("content", "rule", "proof"),
    [
        ('{"state": {"finished": true}}', {"field": "state.finished"}, Proof.YES),
        ('{"state": {"finished": false}}', {"field": "state.finished"}, Proof.NO),
        ('{"state": 3}', {"field": "state.finished"}, Proof.NO),
        ('{"step": 500}', {"field": "step", "equals": 500}, Proof.YES),
        ('{"step": "500"}', {"field": "step", "equals": 500}, Proof.NO),
        ('{"ok": 1}', {"field": "ok", "equals": True}, Proof.NO),
        ('{"step": 5', {"field": "step"}, Proof.UNKNOWN),
        ("", {}, Proof.YES),
    ],
)
def test_a_marker_file(tmp_path: Path, content: str, rule: dict[str, Any], proof: Proof) -> None:
    (tmp_path / "mark.json").write_text(content)
    assert measured({"file": {"path": "mark.json", **rule}}, tmp_path).proof is proof
    assert measured({"file": {"path": "other.json", **rule}}, tmp_path).proof is Proof.NO


def test_of_several_marker_files_any_may_hold_the_field(tmp_path: Path) -> None:
    for name, value in (("a.json", False), ("b.json", True)):
        (tmp_path / name).write_text(json.dumps({"done": value}))
    assert measured({"file": {"path": "*.json", "field": "done"}}, tmp_path).proof is Proof.YES


def test_every_output_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "model-1.safetensors").touch()
    assert measured({"outputs": ["model-*.safetensors"]}, tmp_path).proof is Proof.YES
    assert measured({"outputs": ["model-*.safetensors", "final/*"]}, tmp_path).proof is Proof.NO


def test_storage_that_does_not_answer_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(path: Any, *_: Any, **__: Any) -> Any:
        raise OSError(116, "Stale file handle", str(path))

    monkeypatch.setattr("os.stat", stale)
    assert measured({"outputs": ["*.bin"]}, tmp_path).proof is Proof.UNKNOWN
    assert measured({"file": "done"}, tmp_path).proof is Proof.UNKNOWN


def a_fact(proof: Proof) -> RuleFact:
    return RuleFact("rule", proof, "found")


@pytest.mark.parametrize("proofs", list(product(Proof, repeat=3)))
def test_all_and_any_in_three_values(proofs: tuple[Proof, ...]) -> None:
    facts = [a_fact(proof) for proof in proofs]
    every = judge_completion(facts, "all").proof
    some = judge_completion(facts, "any").proof
    assert (every is Proof.YES) == all(p is Proof.YES for p in proofs)
    assert (every is Proof.NO) == any(p is Proof.NO for p in proofs)
    assert (some is Proof.YES) == any(p is Proof.YES for p in proofs)
    assert (some is Proof.NO) == all(p is Proof.NO for p in proofs)


def test_without_rules_nothing_is_configured_and_nothing_is_known() -> None:
    assert judge_completion(()) == Completion(Proof.UNKNOWN)


START = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
OLD, NEW = "2026-03-13 08:00:00 step 7", "2026-03-14 12:01:00 step 8"


def local(when: datetime) -> str:
    """As Slurm writes it into a log."""
    return f"{when.astimezone():%Y-%m-%dT%H:%M:%S}"


def ended_with(tmp_path: Path, *lines: str, preempted: bool = False) -> Completion:
    """An attempt of ten minutes left this log, and `training finished` is its mark."""
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    end = START + timedelta(minutes=10)
    job = Job(
        AttemptId("c", 255, START), "255", JobState.FAILED, Source.ACCOUNTING,
        start=START, end=end, preempted_at=end if preempted else None,
    )  # fmt: skip
    rules = Done.model_validate({"mark": "training finished"})
    return judge_completion(measure_completion(rules, directory=str(tmp_path), logs=[LogFile(str(log))], job=job))


def test_a_mark_that_an_earlier_run_left_in_the_same_log_proves_nothing_of_this_one(tmp_path: Path) -> None:
    theirs = "2026-03-13 09:00:00 training finished"
    assert ended_with(tmp_path, OLD, theirs, NEW).proof is Proof.NO
    assert ended_with(tmp_path, OLD, theirs, NEW, "training finished").proof is Proof.YES


LAST = START + timedelta(minutes=9)


@pytest.mark.parametrize(
    ("notice", "preempted", "proof"),
    [
        ("*** JOB 255 ON n1 CANCELLED AT {last} DUE TO PREEMPTION ***", False, Proof.NO),
        ("*** JOB 255 ON n1 CANCELLED AT {last} ***", False, Proof.NO),
        ("*** STEP 255.0 ON n1 CANCELLED AT {last} DUE TO TIME LIMIT ***", False, Proof.NO),
        ("*** STEP 255.0 ON n1 CANCELLED AT {last} ***", True, Proof.NO),
        ("*** STEP 255.1 ON n1 CANCELLED AT {last} ***", False, Proof.YES),  # the script ended its monitor
        ("*** JOB 25 ON n1 CANCELLED AT {last} DUE TO PREEMPTION ***", False, Proof.YES),
        ("*** JOB 255 ON n1 CANCELLED AT {before} DUE TO JOB REQUEUE ***", False, Proof.YES),  # the same id, earlier
    ],
)
def test_a_mark_behind_the_notice_that_slurm_ends_the_job_is_the_scripts_and_no_proof(
    tmp_path: Path, notice: str, preempted: bool, proof: Proof
) -> None:
    """The kind: `srun train; echo training finished`, preempted, was called done."""
    said = "slurmstepd-n1: error: " + notice.format(last=local(LAST), before=local(START - timedelta(seconds=20)))
    done = ended_with(tmp_path, NEW, said, "Terminated", "training finished", preempted=preempted)
    assert done.proof is proof
    assert ("Slurm's notice" in " ".join(done.contradicting)) is (proof is Proof.NO)
    assert ended_with(tmp_path, NEW, "training finished", said, preempted=preempted).proof is Proof.YES
