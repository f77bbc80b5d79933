"""The verdict on a damaged checkpoint names the attempt that tore it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from chainwatch.diagnosis.torn import told_apart, torn_by
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import RunReport, Status
from chainwatch.model.verdict import Cause, EndRecord, Evidence, Line, LogEvidence
from tests.recovery.build import NOW, checkpoint, ended, report


def _torn(minutes_ago: float) -> RunReport:
    bad = checkpoint(20, Status.DAMAGED)._replace(modified=(NOW - timedelta(minutes=minutes_ago)).timestamp())
    return report(checkpoint(10), bad)


def test_the_attempt_that_was_preempted_while_it_saved_is_named() -> None:
    first = replace(ended(Cause.PREEMPTION, minutes=60, ago=30), number=1)
    first = replace(first, job=replace(first.job, preempted_at=NOW - timedelta(minutes=31)))
    found = torn_by(_torn(30.5), None, [first])
    assert found is not None
    assert found[0] == "global_step20 was torn by attempt 1 (job 1), which was preempted at 02:29:00 UTC"
    assert "PreemptTime 2026-11-29 02:29:00 UTC" in found[1][0].text


def test_files_preempttime_and_the_logs_sigterm_lines_stand_side_by_side() -> None:
    first = replace(ended(Cause.PREEMPTION, minutes=60, ago=30), number=1)
    term = Line("/run/log", 812, "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 02:29:00 DUE TO PREEMPTION ***")
    record = EndRecord("n1", None, 15, NOW - timedelta(minutes=30), saving=True)
    before = Evidence(first.job, logs=LogEvidence(signalled=(term,)), end_records=(record,))
    found = torn_by(_torn(30.5), None, [first], lambda a: {1: before}.get(a.number))
    assert found is not None
    assert found[1][1:] == (term,)
    assert "a save under way when the signal came" in found[1][0].text


def test_a_checkpoint_that_was_written_long_before_the_end_was_not_torn_by_it() -> None:
    first = replace(ended(Cause.PREEMPTION, minutes=60, ago=30), number=1)
    assert torn_by(_torn(60), None, [first]) is None, "bits rot, too"


def test_the_past_is_asked_for_only_where_a_checkpoint_was_damaged() -> None:
    def never() -> list[Attempt]:
        raise AssertionError("asked")

    verdict = ended(Cause.PREEMPTION).verdict
    assert verdict is not None
    evidence = Evidence(ended(Cause.PREEMPTION).job, checkpoints=_torn(30.5))
    assert told_apart(verdict, evidence, never) is verdict
    corrupt = replace(verdict, cause=Cause.CHECKPOINT_CORRUPT)
    waited = ended(Cause.PREEMPTION, ago=30)
    waited = replace(waited, job=replace(waited.job, start=None))
    assert told_apart(corrupt, evidence, lambda: [waited]) is corrupt, "it never ran"
    first = ended(Cause.PREEMPTION, minutes=60, ago=30)
    said = told_apart(replace(verdict, cause=Cause.CHECKPOINT_CORRUPT), evidence, lambda: [first])
    assert "torn by attempt 1" in said.sentence


def test_a_checkpoint_that_was_written_at_another_time_blames_nobody() -> None:
    assert torn_by(_torn(300), None, [ended(Cause.PREEMPTION, minutes=60, ago=30)]) is None


def test_the_checkpoint_that_the_job_loaded_is_the_one_in_question() -> None:
    first = ended(Cause.TIME_LIMIT, minutes=60, ago=30)
    assert torn_by(_torn(31), "/run/global_step10", [first]) is None


def test_nothing_is_claimed_where_nothing_was_read() -> None:
    assert torn_by(None, None, [ended(Cause.PREEMPTION)]) is None
