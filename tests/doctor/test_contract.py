"""The reading part of the contract against a cluster that people work on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest

from chainwatch.doctor import Level, reading_part
from chainwatch.doctor.contract import LiveStage
from chainwatch.slurm import Backend
from chainwatch.slurm.contract import CASES, Can, CannotPlay, Program, submission
from tests.simulation.stage import SHORT, SimulatedStage
from tests.slurm import fake

READING = {case.name for case in CASES if case.read_only}


def now() -> datetime:
    return datetime.now(UTC)


def test_each_reading_case_is_one_finding_and_nothing_is_submitted() -> None:
    stage = SimulatedStage(SHORT)
    stage.backend.submit(submission(stage, Program(seconds=60)))
    before = [job.job_id for job in stage.backend.queue(None)]
    found = list(reading_part(stage.backend, stage.user, stage.now))
    assert {finding.code for finding in found} == READING
    assert {finding.level for finding in found} == {Level.OK}
    assert [job.job_id for job in stage.backend.queue(None)] == before


def test_a_broken_promise_is_a_problem_that_names_it() -> None:
    stage = SimulatedStage(SHORT)
    stage.backend.name = "another"
    broken = {finding.code: finding for finding in reading_part(stage.backend, stage.user, stage.now)}
    assert broken["info_names_the_cluster"].level is Level.PROBLEM
    assert "BROKEN" in broken["info_names_the_cluster"].what


def test_a_cluster_that_does_not_answer_is_one_finding_and_no_broken_promise() -> None:
    backend, _ = fake.backend(scontrol=fake.reply(stderr="slurm_load_ctl_conf error: Socket timed out", code=1))
    (finding,) = reading_part(backend, "ann", now)
    assert finding.level is Level.UNKNOWN
    assert "Socket timed out" in finding.what


def test_a_live_cluster_is_only_looked_at() -> None:
    stage = LiveStage(cast(Backend, None), "ann", now)
    for bring_about in (
        lambda: stage.write(Program()),
        lambda: stage.preempt(7),
        lambda: stage.preemptable(requeue=False),
        lambda: stage.fail_node("n1"),
        lambda: stage.restore_node("n1"),
        lambda: stage.limit_submissions(1),
        lambda: stage.outage(Can.CONTROLLER_DOWN),
        lambda: stage.wait_until(lambda: None, 1, "anything"),
    ):
        with pytest.raises(CannotPlay, match="nothing is changed"):
            bring_about()
    assert stage.wait_until(lambda: 7, 1, "a number") == 7
