"""Every end, as the real releases record it."""

from __future__ import annotations

import pytest

from chainwatch.model.job import ExitCode, JobState
from chainwatch.simulation import PreemptMode, Qos, Settings
from tests.simulation.lab import Lab, batch

GRACE = (
    Qos("normal", 100, frozenset({"extra", "requeue"})),
    Qos("extra", 1, grace=60),
    Qos("requeue", 1, mode=PreemptMode.REQUEUE, grace=60),
)


def test_exit_0_is_completed_in_squeue_and_sacct_with_all_steps() -> None:
    lab = Lab()
    job = lab.run(batch(10, steps=(("0", 0, 0),)))
    lab.clock.sleep(30)
    assert lab.state(job) == "COMPLETED"
    row = lab.row(job)
    assert (row.state, row.exit, row.derived_exit) == (JobState.COMPLETED, ExitCode(0), ExitCode(0))
    assert [(s.name, s.state) for s in row.steps] == [
        ("batch", JobState.COMPLETED),
        ("extern", JobState.COMPLETED),
        ("0", JobState.COMPLETED),
    ]


def test_a_failed_step_in_a_completed_job_shows_only_in_the_step_and_the_derived_code() -> None:
    lab = Lab()
    job = lab.run(batch(5, 0, steps=(("0", 3, 0),)))
    lab.clock.sleep(30)
    row = lab.row(job)
    assert (row.state, row.exit, row.derived_exit) == (JobState.COMPLETED, ExitCode(0), ExitCode(3))


@pytest.mark.parametrize(("release", "shown"), [("22.05.8", 9), ("24.11.5", 9), ("26.05.5", 137)])
def test_exit_137_is_shown_less_128_by_old_releases(release: str, shown: int) -> None:
    lab = Lab(Settings(release=release))
    job = lab.run(batch(5, 137))
    lab.clock.sleep(30)
    assert lab.row(job).exit == ExitCode(shown)
    assert lab.row(job).state is JobState.FAILED


def test_a_batch_script_killed_by_a_signal_is_failed_with_the_signal() -> None:
    lab = Lab()
    job = lab.run(batch(5, 0, 9))
    lab.clock.sleep(30)
    row = lab.row(job)
    assert (row.state, str(row.exit), row.reason) == (JobState.FAILED, "0:9", "JobLaunchFailure")
    assert row.step("batch").state is JobState.CANCELLED  # type: ignore[union-attr]


def test_the_time_limit_is_enforced_late_and_recorded_as_timeout_whatever_the_trap_returns() -> None:
    lab = Lab()
    job = lab.run(batch(None, traps_term=1), "--time=10")
    lab.clock.sleep(599)
    assert lab.state(job) == "RUNNING"
    lab.clock.sleep(60)
    row = lab.row(job)
    assert (row.state, row.exit) == (JobState.TIMEOUT, ExitCode(0))
    assert row.end is not None
    assert row.start is not None
    assert 600 <= (row.end - row.start).total_seconds() <= 632
    assert row.step("batch").state is JobState.FAILED  # type: ignore[union-attr]


def test_a_process_that_ignores_sigterm_holds_the_job_in_completing_until_killwait() -> None:
    lab = Lab()
    job = lab.run(batch(None, ignores_term=True))
    lab.clock.sleep(10)
    lab.backend.cancel(job)
    lab.clock.sleep(20)
    assert lab.state(job) == "COMPLETING"
    lab.clock.sleep(20)
    assert lab.state(job) == "CANCELLED"
    assert lab.row(job).cancelled_by == 1001
    assert lab.row(job).raw_state == "CANCELLED by 1001"
    assert str(lab.row(job).step("batch").exit) == "0:9"  # type: ignore[union-attr]


def test_cancelled_while_pending_has_no_start_and_no_nodes() -> None:
    lab = Lab()
    job = lab.run(batch(10), "--hold")
    lab.backend.cancel(job)
    lab.clock.sleep(5)
    row = lab.row(job)
    assert (row.state, row.start, row.nodes) == (JobState.CANCELLED, None, ())
    assert row.end is not None


def test_preempted_with_grace_gets_sigterm_at_once_and_the_end_afterwards() -> None:
    lab = Lab(Settings(qos=GRACE))
    job = lab.run(batch(None), "--qos=extra")
    lab.clock.sleep(10)
    lab.cluster.preempt(job)
    lab.clock.sleep(1)
    live = lab.queued(job)
    assert live is not None
    assert live.state is JobState.RUNNING
    assert live.preempted_at is not None
    lab.clock.sleep(80)
    row = lab.row(job)
    assert (row.state, row.exit) == (JobState.PREEMPTED, ExitCode(0))
    assert row.preempted_at is None, "sacct never has PreemptTime"


@pytest.mark.parametrize(
    ("release", "code", "state", "shown"),
    [
        ("22.05.8", 1, JobState.FAILED, "1:0"),
        ("22.05.8", 0, JobState.COMPLETED, "0:0"),
        ("24.11.5", 1, JobState.PREEMPTED, "0:0"),
        ("26.05.5", 0, JobState.PREEMPTED, "0:0"),
    ],
)
def test_an_exit_within_the_grace_hides_the_preemption_on_22_05_only(
    release: str, code: int, state: JobState, shown: str
) -> None:
    lab = Lab(Settings(release=release, qos=GRACE))
    job = lab.run(batch(None, traps_term=code, step_dies_of_term=True), "--qos=extra")
    lab.clock.sleep(10)
    lab.cluster.preempt(job)
    lab.clock.sleep(20)
    row, live = lab.row(job), lab.queued(job)
    assert (row.state, str(row.exit)) == (state, shown)
    assert live is not None
    assert live.preempted_at is not None, "only PreemptTime tells, while the controller remembers"
    lab.clock.sleep(600)
    assert lab.state(job) == "absent"


def test_requeue_keeps_the_id_resets_submit_and_starts_two_minutes_later() -> None:
    lab = Lab(Settings(qos=GRACE))
    job = lab.run(batch(None), "--qos=requeue")
    lab.clock.sleep(10)
    first = lab.queued(job)
    assert first is not None
    lab.cluster.preempt(job)
    lab.clock.sleep(85)
    back = lab.queued(job)
    assert back is not None
    assert (back.state, back.reason, back.restarts) == (JobState.PENDING, "BeginTime", 1)
    assert back.attempt.submitted > first.attempt.submitted
    assert back.preempted_at is None, "reset once it is pending again"
    lab.clock.sleep(125)
    again = lab.queued(job)
    assert again is not None
    assert again.state is JobState.RUNNING
    assert again.start is not None
    assert (again.start - back.attempt.submitted).total_seconds() >= 120
    rows = lab.backend.accounting([job])
    assert [r.state for r in rows] == [JobState.PREEMPTED, JobState.RUNNING]


def test_22_05_does_not_requeue_a_job_that_exits_within_its_grace_even_under_a_requeue_qos() -> None:
    lab = Lab(Settings(qos=GRACE))
    job = lab.run(batch(None, traps_term=1, step_dies_of_term=True), "--qos=requeue")
    lab.clock.sleep(10)
    lab.cluster.preempt(job)
    lab.clock.sleep(300)
    assert lab.state(job) == "FAILED"
    assert [r.state for r in lab.backend.accounting([job])] == [JobState.FAILED]


def test_no_requeue_makes_preemption_final() -> None:
    lab = Lab(Settings(qos=GRACE))
    job = lab.run(batch(None), "--qos=requeue", "--no-requeue")
    lab.clock.sleep(10)
    lab.cluster.preempt(job)
    lab.clock.sleep(90)
    assert lab.state(job) == "PREEMPTED"


def test_scontrol_requeue_of_a_running_job_leaves_a_requeued_row_and_sets_the_restart_count() -> None:
    lab = Lab()
    seen: list[str | None] = []
    plain = batch(None)

    def remembering(process):  # type: ignore[no-untyped-def]
        seen.append(process.launch.environment.get("SLURM_RESTART_COUNT"))
        return plain(process)

    job = lab.run(remembering)
    lab.clock.sleep(10)
    lab.backend.requeue(job)
    assert lab.state(job) == "COMPLETING"
    lab.clock.sleep(200)
    assert lab.state(job) == "RUNNING"
    assert [r.state for r in lab.backend.accounting([job])] == [JobState.REQUEUED, JobState.RUNNING]
    assert seen == [None, "1"]


def test_scontrol_requeue_runs_a_completed_job_again() -> None:
    lab = Lab()
    job = lab.run(batch(5))
    lab.clock.sleep(30)
    lab.backend.requeue(job)
    lab.clock.sleep(1)
    assert lab.state(job) == "PENDING"
    lab.clock.sleep(200)
    assert [r.state for r in lab.backend.accounting([job])] == [JobState.COMPLETED, JobState.COMPLETED]


def test_a_job_cancelled_on_its_way_back_into_the_queue_stays_cancelled() -> None:
    lab = Lab()
    job = lab.run(batch(None, ignores_term=True))
    lab.clock.sleep(10)
    lab.backend.requeue(job)
    lab.backend.cancel(job)
    lab.clock.sleep(300)
    assert lab.state(job) == "CANCELLED"
    assert len(lab.cluster.runs) == 1


def test_an_ended_job_is_forgotten_after_minjobage_and_accounting_keeps_it() -> None:
    lab = Lab(Settings(min_job_age=300))
    job = lab.run(batch(5))
    lab.clock.sleep(290)
    assert lab.state(job) == "COMPLETED"
    lab.clock.sleep(100)
    assert lab.state(job) == "absent"
    assert lab.backend.job(job) is None
    assert lab.row(job).state is JobState.COMPLETED


def test_job_ids_are_used_again_with_another_submit_time() -> None:
    lab = Lab(Settings(first_job_id=10, max_job_id=12, min_job_age=30))
    first = lab.run(batch(5))
    lab.clock.sleep(600)
    ids = [lab.submit() for _ in range(3)]
    assert ids == [11, 12, first]
    lab.clock.sleep(30)
    rows = lab.backend.accounting([first])
    assert len(rows) == 2
    assert rows[0].attempt != rows[1].attempt
