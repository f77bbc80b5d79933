"""End records on the user's storage: found by attempt, read with suspicion, and believed by the verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chainwatch.diagnosis import diagnose
from chainwatch.evidence.end_records import as_recorded, read_end_records
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.model.verdict import Cause, EndRecord, Evidence, Retry

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOB = Job(
    AttemptId("c", 41, START), "41", JobState.FAILED, Source.ACCOUNTING, start=START, end=START + timedelta(hours=1),
    nodes=("n01", "n02"), exit=ExitCode(1),
)  # fmt: skip


def write(place: Path, name: str = "end-0-0.json", restarts: int = 0, **facts: object) -> None:
    directory = place / ".chainwatch" / "jobs" / f"41-{restarts}"
    directory.mkdir(parents=True, exist_ok=True)
    at = START + timedelta(minutes=30)
    document = {"node": "n02", "started": at.timestamp() - 60, "at": at.timestamp(), "exit_code": 1, **facts}
    (directory / name).write_text(json.dumps(document))


def test_a_record_says_exit_code_signals_and_what_was_resumed(tmp_path: Path) -> None:
    at = START.timestamp()
    write(
        tmp_path,
        exit_code=None,
        signal=9,
        signals=[["SIGTERM", at]],
        saving=True,
        resumed_from="/run/step_10",
        image="/i/a.sif",
    )
    (record,) = read_end_records([str(tmp_path), str(tmp_path), ""], JOB)
    assert (record.signal, record.saving, record.resumed_from, record.image) == (9, True, "/run/step_10", "/i/a.sif")
    assert record.signals == (("SIGTERM", START),)


def test_records_of_another_run_of_the_same_id_are_left_out(tmp_path: Path) -> None:
    early, late = START - timedelta(hours=5), START + timedelta(hours=5)
    write(tmp_path, "end-0-1.json", started=early.timestamp(), at=early.timestamp())
    write(tmp_path, "end-0-2.json", restarts=1, started=late.timestamp(), at=late.timestamp())
    assert read_end_records([str(tmp_path)], JOB) == ()


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path)
    directory = tmp_path / ".chainwatch" / "jobs" / "41-0"
    for number, text in enumerate(("", "{", "[]", '{"node": 1}', '{"at": 1e400}', "[" * 100_000, '{"at": true}')):
        (directory / f"end-x-{number}.json").write_text(text)
    write(tmp_path, "end-0-9.json", signals="no list", saving="maybe", exit_code=True, signal="9", oom_kill="yes")
    records = read_end_records([str(tmp_path)], JOB)
    assert [r.exit_code for r in records] == [1, None]
    assert not records[1].oom_kill


def test_nothing_there_is_no_record(tmp_path: Path) -> None:
    assert read_end_records([str(tmp_path), "/no/such/place"], JOB) == ()


def ended(**facts: object) -> EndRecord:
    plain = EndRecord(node="n02", exit_code=1, signal=None, at=START)
    return replace(plain, **facts)  # type: ignore[arg-type]


def test_a_node_that_the_preflight_refused_is_left_out_next_time() -> None:
    verdict = diagnose(
        Evidence(JOB, end_records=(ended(exit_code=75, preflight="3 GPUs are there, 4 are wanted", bad_node="n02"),))
    )
    assert (verdict.cause, verdict.retry, verdict.culprit_nodes) == (
        Cause.HARDWARE_NODE, Retry.YES_EXCLUDE_NODE, ("n02",)
    )  # fmt: skip
    assert "3 GPUs are there" in verdict.sentence


def test_a_full_disk_waits_and_blames_no_node() -> None:
    verdict = diagnose(Evidence(JOB, end_records=(ended(exit_code=75, preflight="0.1 GB are free"),)))
    assert (verdict.cause, verdict.retry, verdict.culprit_nodes) == (Cause.STORAGE, Retry.WAIT, ())


def test_no_intact_checkpoint_is_told_as_that() -> None:
    verdict = diagnose(Evidence(JOB, end_records=(ended(exit_code=3, preflight="none of 2 checkpoints is intact"),)))
    assert verdict.cause is Cause.CHECKPOINT_CORRUPT


def test_a_kill_for_memory_that_slurm_did_not_notice_is_told() -> None:
    verdict = diagnose(Evidence(JOB, end_records=(ended(exit_code=None, signal=9, oom_kill=True),)))
    assert verdict.cause is Cause.OOM_HOST
    other = diagnose(Evidence(JOB, end_records=(ended(exit_code=1, oom_kill=True),)))
    assert other.cause is not Cause.OOM_HOST, "a data loader that was killed need not be why it ended"


GONE = replace(JOB, state=JobState.UNKNOWN, exit=None, end=None)
AT = START + timedelta(minutes=30)
WELL = EndRecord("n01", 0, None, AT)
FAILED = EndRecord("n02", 7, None, AT)


@pytest.mark.parametrize(
    ("records", "state", "code"),
    [
        ((FAILED,), JobState.FAILED, ExitCode(7)),
        ((WELL, FAILED), JobState.FAILED, ExitCode(7)),
        ((EndRecord("n01", None, 9, AT),), JobState.FAILED, ExitCode(0, 9)),
        ((WELL,), JobState.UNKNOWN, ExitCode(0)),
        ((replace(FAILED, signals=(("SIGTERM", AT),)),), JobState.UNKNOWN, ExitCode(7)),
        ((), JobState.UNKNOWN, None),
    ],
    ids=["failed", "one of two failed", "killed", "one command ended well", "told to end", "no record"],
)
def test_a_job_that_slurm_forgot_is_told_by_its_end_records(
    records: tuple[EndRecord, ...], state: JobState, code: ExitCode | None
) -> None:
    job = as_recorded(GONE, records)
    assert (job.state, job.exit, job.end) == (state, code, AT if records else None)
    assert job.source is (Source.END_RECORD if records else Source.ACCOUNTING)


def test_what_slurm_says_wins_over_an_end_record() -> None:
    assert as_recorded(JOB, (WELL,)) is JOB
