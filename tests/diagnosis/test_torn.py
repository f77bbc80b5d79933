"""The verdict on a damaged checkpoint names the attempt that tore it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from chainwatch.diagnosis.torn import torn_by
from chainwatch.model.checkpoint import RunReport, Status
from chainwatch.model.verdict import Cause
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
    assert "PreemptTime 2026-11-29 02:29:00 UTC" in found[1].text


def test_a_checkpoint_that_was_written_at_another_time_blames_nobody() -> None:
    assert torn_by(_torn(300), None, [ended(Cause.PREEMPTION, minutes=60, ago=30)]) is None


def test_the_checkpoint_that_the_job_loaded_is_the_one_in_question() -> None:
    first = ended(Cause.TIME_LIMIT, minutes=60, ago=30)
    assert torn_by(_torn(31), "/run/global_step10", [first]) is None


def test_nothing_is_claimed_where_nothing_was_read() -> None:
    assert torn_by(None, None, [ended(Cause.PREEMPTION)]) is None
