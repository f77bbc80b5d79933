"""What is known of an attempt only grows."""

from __future__ import annotations

from chainwatch.model.chain import Attempt, living
from chainwatch.model.job import JobState
from chainwatch.supervisor.history import gpu_hours, met, without_duplicates
from tests.store.build import record
from tests.supervisor.jobs import MINUTE, NOW, queued, recorded


def test_a_preempt_time_that_was_seen_once_is_never_forgotten() -> None:
    first = met((), queued(preempted_at=NOW, nodes=("n1",), start=NOW), record(), ours=True)
    later = met((first,), queued(JobState.COMPLETING), record(), ours=True)
    assert later.number == first.number
    assert later.job.preempted_at == NOW
    assert later.job.nodes == ("n1",)
    assert later.job.state is JobState.COMPLETING


def test_a_live_state_follows_what_is_seen_and_a_final_one_stays() -> None:
    pending = met((), queued(JobState.PENDING), record(), ours=True)
    running = met((pending,), queued(JobState.RUNNING), record(), ours=True)
    assert running.job.state is JobState.RUNNING
    held = met((running,), queued(JobState.SUSPENDED), record(), ours=True)
    assert held.job.state is JobState.SUSPENDED
    over = met((held,), recorded(JobState.FAILED), record(), ours=True)
    assert over.job.state is JobState.FAILED


def test_a_reason_that_is_over_does_not_stick() -> None:
    waiting = met((), queued(JobState.PENDING, reason="JobHeldUser"), record(), ours=True)
    assert met((waiting,), queued(JobState.PENDING, reason="Priority"), record(), ours=True).job.reason == "Priority"


def test_a_new_identity_is_the_next_attempt_and_begins_where_the_chain_stands() -> None:
    first = met((), queued(), record(), ours=True)
    again = met((first,), queued(JobState.PENDING, submitted=NOW + MINUTE), record(step=30, saved_step=20), ours=False)
    assert (again.number, again.ours, again.step_before, again.saved_before) == (2, False, 30, 20)


def test_jobs_that_we_cancelled_while_they_waited_tell_nothing_of_the_chain() -> None:
    ran = Attempt(queued(JobState.FAILED, start=NOW), 1, ours=True)
    doubled = Attempt(queued(JobState.CANCELLED, job_id=8), 2, ours=True)
    chain = record(facts={"ended_by_us": {str(doubled.job.attempt): "doubled", str(ran.job.attempt): "hung"}})
    assert without_duplicates((ran, doubled), chain) == (ran,)
    assert without_duplicates((ran, doubled), record()) == (ran, doubled)


def test_gpu_hours_are_counted_only_where_slurm_names_gpus() -> None:
    ran = Attempt(queued(start=NOW, gpus=4), 1, ours=True, ended=NOW + 30 * MINUTE)
    assert gpu_hours(ran, NOW + 90 * MINUTE) == 2.0
    live = Attempt(queued(start=NOW, gpus=4), 1, ours=True)
    assert gpu_hours(live, NOW + 90 * MINUTE) == 6.0
    assert gpu_hours(Attempt(queued(start=NOW), 1, ours=True), NOW + MINUTE) == 0.0
    assert gpu_hours(Attempt(queued(gpus=4), 1, ours=True), NOW + MINUTE) == 0.0


def test_a_task_keeps_its_name_where_accounting_forgot_its_array() -> None:
    seen = queued(job_id=10, shown_id="9_3", array_job_id=9, array_task="3")
    over = seen.merged(recorded(JobState.COMPLETED, job_id=10, shown_id="10"))
    assert (over.shown_id, over.array_job_id, over.array_task) == ("9_3", 9, "3")
    assert over.state is JobState.COMPLETED


def test_the_attempt_that_lives_is_the_one_on_nodes_and_not_what_waits_behind_it() -> None:
    """The kind: of a chain of dependent jobs that was adopted, the last one in the queue was shown and probed."""
    ran = Attempt(queued(JobState.FAILED), 1, ours=True, ended=NOW)
    runs = Attempt(queued(JobState.RUNNING, job_id=8), 2, ours=False)
    waits = [Attempt(queued(JobState.PENDING, job_id=n), n, ours=False) for n in (9, 10)]
    assert living((ran, runs, *waits)) is runs
    assert living((ran, *waits)) is waits[0]
    assert living((ran,)) is None
