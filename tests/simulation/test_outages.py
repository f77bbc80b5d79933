"""Three answers: known, absent, no information. And what really happens to a request whose answer is lost."""

from __future__ import annotations

import pytest

from chainwatch.model.job import JobState
from chainwatch.simulation import Fault, FaultKind, FaultPlan, Settings
from chainwatch.slurm.backend import NoInformation, Refusal, Refused, SubmitUncertain
from tests.simulation.lab import Lab, batch


def test_an_empty_queue_is_an_answer_and_an_unreachable_controller_is_none() -> None:
    lab = Lab()
    assert list(lab.backend.queue(None)) == []
    lab.cluster.stop_controller()
    before = lab.clock.monotonic()
    with pytest.raises(NoInformation, match="Unable to contact"):
        lab.backend.queue(None)
    assert 9 <= lab.clock.monotonic() - before <= 10
    with pytest.raises(NoInformation):
        lab.backend.job(1)
    assert 27 <= lab.clock.monotonic() - before <= 30, "calls about one job take twice as long to fail"


def test_jobs_run_on_while_the_controller_is_down_and_their_end_is_when_it_came_back() -> None:
    lab = Lab()
    job = lab.run(batch(100))
    lab.clock.sleep(10)
    lab.cluster.stop_controller()
    lab.clock.sleep(590)
    assert lab.row(job).state is JobState.RUNNING, "accounting answers, stale"
    lab.cluster.start_controller()
    lab.clock.sleep(10)
    row = lab.row(job)
    assert row.state is JobState.COMPLETED
    assert row.end is not None
    assert row.start is not None
    assert (row.end - row.start).total_seconds() > 590


def test_nothing_starts_and_nothing_is_forgotten_while_the_controller_is_down() -> None:
    lab = Lab(Settings(min_job_age=60))
    done = lab.run(batch(1))
    lab.clock.sleep(20)
    waiting = lab.submit("--begin=now+1minute")
    lab.cluster.stop_controller()
    lab.clock.sleep(3600)
    assert not any(run.job_id == waiting for run in lab.cluster.runs)
    assert done in {job.job_id for job in lab.cluster.jobs}
    lab.cluster.start_controller()
    assert lab.state(done) == "absent", "purged as soon as it is back"
    lab.clock.sleep(10)
    assert any(run.job_id == waiting for run in lab.cluster.runs)


def test_a_submission_to_a_frozen_controller_is_uncertain_and_exists_when_it_wakes() -> None:
    lab = Lab()
    lab.script(batch(50))
    lab.cluster.freeze_controller()
    with pytest.raises(SubmitUncertain):
        lab.submit("--comment=token-1")
    lab.clock.sleep(60)
    lab.cluster.start_controller()
    lab.clock.sleep(5)
    (job,) = lab.backend.queue(None)
    assert (job.comment, job.state) == ("token-1", JobState.RUNNING)


def test_a_submission_to_a_frozen_controller_is_lost_when_it_is_restarted() -> None:
    lab = Lab()
    lab.script(batch(50))
    lab.cluster.freeze_controller()
    with pytest.raises(SubmitUncertain):
        lab.submit()
    lab.cluster.stop_controller()
    lab.cluster.start_controller()
    lab.clock.sleep(60)
    assert list(lab.backend.queue(None)) == []


@pytest.mark.parametrize(("kind", "jobs"), [(FaultKind.BEFORE, 0), (FaultKind.AFTER, 1)])
def test_a_planned_fault_hits_the_nth_call_before_or_after_the_effect(kind: FaultKind, jobs: int) -> None:
    lab = Lab(faults=FaultPlan((Fault("submit", 2, kind),)))
    first = lab.run(batch(5))
    with pytest.raises(SubmitUncertain):
        lab.submit()
    assert len(lab.backend.queue(None)) == 1 + jobs
    assert lab.submit() > first
    calls = [c for c in lab.backend.calls if c.method == "submit"]
    assert [(c.outcome, c.effect) for c in calls] == [("ok", True), ("SubmitUncertain", bool(jobs)), ("ok", True)]


def test_a_late_request_is_carried_out_after_its_client_gave_up() -> None:
    lab = Lab(faults=FaultPlan((Fault("submit", 1, FaultKind.LATE, late=45),)))
    with pytest.raises(SubmitUncertain):
        lab.run(batch(500), "--comment=late")
    assert list(lab.backend.queue(None)) == [], "squeue answers, and does not know it"
    lab.clock.sleep(50)
    (job,) = lab.backend.queue(None)
    assert job.comment == "late"


def test_every_call_can_be_interrupted_before_and_after_its_effect() -> None:
    class Killed(BaseException):
        pass

    lab = Lab()
    lab.script(batch(5))
    points: list[str] = []
    deadly = ""

    def die_at(point: str) -> None:
        points.append(point)
        if point == deadly:
            raise Killed

    lab.backend.interrupt = die_at
    for point, jobs in (("submit:before", 0), ("submit:after", 1)):
        deadly = point
        with pytest.raises(Killed):
            lab.submit()
        assert len(lab.cluster.jobs) == jobs
    deadly = ""
    lab.backend.queue(None)
    assert points[-2:] == ["queue:before", "queue:after"]


def test_slurmdbd_down_is_no_information_and_what_ended_meanwhile_appears_after_its_return() -> None:
    lab = Lab()
    job = lab.run(batch(30))
    lab.clock.sleep(5)
    lab.cluster.stop_accounting()
    lab.clock.sleep(60)
    with pytest.raises(NoInformation, match="Problem talking to the database"):
        lab.backend.accounting([job])
    assert lab.state(job) == "COMPLETED", "squeue works"
    lab.cluster.start_accounting()
    assert list(lab.backend.accounting([job])) == [], "no row never means no job"
    lab.clock.sleep(17)
    assert lab.row(job).state is JobState.COMPLETED


def test_right_after_slurmdbds_return_a_running_job_has_no_row() -> None:
    lab = Lab()
    job = lab.run(batch(None))
    lab.clock.sleep(60)
    lab.cluster.stop_accounting()
    lab.clock.sleep(60)
    lab.cluster.start_accounting()
    assert list(lab.backend.accounting([job])) == []
    lab.clock.sleep(17)
    assert lab.row(job).state is JobState.RUNNING


def test_accounting_lags_behind_the_queue() -> None:
    lab = Lab(Settings(accounting_lag=(30, 30)))
    job = lab.run(batch(5))
    assert list(lab.backend.accounting([job])) == []
    lab.clock.sleep(20)
    assert lab.state(job) == "COMPLETED"
    assert list(lab.backend.accounting([job])) == []
    lab.clock.sleep(30)
    assert lab.row(job).state is JobState.COMPLETED


def test_window_queries_leave_out_what_was_never_eligible_and_id_queries_do_not() -> None:
    lab = Lab()
    since = lab.clock.now()
    held, ran = lab.run(batch(5), "--hold"), lab.submit()
    lab.backend.cancel(held)
    lab.clock.sleep(30)
    assert {r.job_id for r in lab.backend.accounting(since=since, user="ada")} == {ran}
    assert {r.job_id for r in lab.backend.accounting([held, ran])} == {held, ran}
    assert lab.backend.accounting(since=since, user="bob") == []


def test_a_site_without_accounting_gives_no_information() -> None:
    lab = Lab(Settings(accounting=False))
    assert not lab.backend.info().accounting
    with pytest.raises(NoInformation, match="disabled"):
        lab.backend.accounting([1])


def test_the_comment_is_in_squeue_and_only_in_the_submit_line_of_sacct() -> None:
    lab = Lab()
    job = lab.run(batch(5), "--comment=cw:token")
    lab.clock.sleep(30)
    assert lab.queued(job).comment == "cw:token"  # type: ignore[union-attr]
    assert lab.row(job).comment == ""
    assert "cw:token" in lab.row(job).submit_line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--qos=gold",), "Invalid qos"),
        (("--account=nobody",), "Invalid account"),
        (("--partition=gpu",), "invalid partition"),
        (("--time=soon",), "Invalid --time"),
        (("--no-such-option",), "unrecognized option"),
    ],
)
def test_a_wrong_request_is_refused_for_a_person(options: tuple[str, ...], message: str) -> None:
    lab = Lab()
    lab.script(batch(5))
    with pytest.raises(Refused, match=message) as refused:
        lab.submit(*options)
    assert refused.value.calls_for is Refusal.PERSON
    assert not lab.cluster.jobs


def test_a_script_that_is_gone_is_refused_and_submitted_jobs_keep_their_copy() -> None:
    lab = Lab()
    job = lab.run(batch(5), "--begin=now+1minute")
    lab.cluster.remove_script("/home/ada/job.sh")
    with pytest.raises(Refused, match="Unable to open file"):
        lab.submit()
    assert (lab.backend.script(job) or b"").startswith(b"#!/bin/bash")
    lab.clock.sleep(80)
    assert lab.state(job) == "COMPLETED"


def test_limits_and_a_partition_that_is_down_pass_by_themselves() -> None:
    lab = Lab()
    lab.cluster.controller.submit_limits[""] = 1
    lab.run(batch(5))
    with pytest.raises(Refused, match="job submit limit") as refused:
        lab.submit()
    assert refused.value.calls_for is Refusal.WAIT
    lab.clock.sleep(30)
    lab.submit()
    lab.clock.sleep(30)
    lab.cluster.controller.partition_up = False
    with pytest.raises(Refused, match="partition not available") as refused:
        lab.submit()
    assert refused.value.calls_for is Refusal.WAIT


def test_options_of_the_command_line_replace_those_of_the_script() -> None:
    lab = Lab()
    lab.script(batch(5), "--comment='from script' --job-name=a", "-t 30")
    job = lab.backend.job(lab.submit("--comment=mine", "-J", "b"))
    assert job is not None
    assert (job.comment, job.name) == ("mine", "b")
    assert job.time_limit is not None
    assert job.time_limit.total_seconds() == 1800


def test_scancel_of_pending_jobs_only_spares_one_that_started_meanwhile() -> None:
    lab = Lab()
    job = lab.run(batch(None))
    lab.clock.sleep(5)
    lab.backend.cancel(job, pending_only=True)
    lab.clock.sleep(5)
    assert lab.state(job) == "RUNNING"
    lab.backend.cancel(99_999)
