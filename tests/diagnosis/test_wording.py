"""Verdicts in words: short, and nothing said twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from chainwatch.diagnosis import diagnose
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.model.verdict import Evidence

NOW = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
JOB = Job(AttemptId("c", 4711, NOW), "4711", JobState.FAILED, Source.ACCOUNTING, exit=ExitCode(1), nodes=("n1", "n2"))


def test_what_slurm_states_is_said_once() -> None:
    preempted = replace(JOB, state=JobState.PREEMPTED, raw_state="PREEMPTED", preempted_at=NOW)
    assert diagnose(Evidence(preempted)).sentence == "Job 4711 ended: preempted at 2026-03-02 07:00:00 UTC"
    hidden = replace(JOB, raw_state="FAILED", preempted_at=NOW)
    assert diagnose(Evidence(hidden)).sentence == (
        "Job 4711 ended: preempted at 2026-03-02 07:00:00 UTC (Slurm recorded FAILED 1:0)"
    )


def test_a_node_that_failed_is_named_with_what_failed() -> None:
    lost = replace(JOB, state=JobState.NODE_FAIL, failed_node="n2")
    assert diagnose(Evidence(lost)).sentence == "Job 4711 ended: node fault on n2 (a node failed)"
