"""The loop against a real Slurm: exactly once, whatever dies, is late, answers nothing, or submits beside us."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from dev.cluster import PrivateCluster

from chainwatch.model.chain import ChainState
from chainwatch.model.clock import SystemClock
from chainwatch.model.job import JobState
from chainwatch.model.verdict import Cause
from chainwatch.slurm.backend import Submission
from chainwatch.store import Store
from chainwatch.store.records import IntentStatus
from chainwatch.supervisor.submitting import Submitting
from tests.cluster.stand import DONE, FOREVER, NCCL, Stand


@pytest.fixture
def breakable(idle_cluster: PrivateCluster, stand: Stand) -> Stand:
    """The same, on a cluster that is mended afterwards."""
    return stand


@pytest.fixture
def name() -> str:
    """Of the chain and of its jobs: no other test's."""
    return f"run-{uuid.uuid4().hex[:8]}"


class Died(BaseException):
    """The daemon is gone at this very line."""


class Dying:
    """A backend in front of which, or behind whose sbatch, the daemon dies once."""

    def __init__(self, inner: Any, after: bool) -> None:
        self._inner, self._after = inner, after
        self.died = False

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._inner, attribute)

    def submit(self, submission: Submission) -> int:
        if self.died:
            return int(self._inner.submit(submission))
        self.died = True
        if self._after:
            self._inner.submit(submission)
        raise Died


# -- exactly once


@pytest.mark.parametrize("after", [False, True], ids=["between-intent-and-sbatch", "between-sbatch-and-record"])
def test_a_daemon_that_dies_around_sbatch_submits_once(stand: Stand, name: str, after: bool) -> None:
    stand.chain(name)
    stand.backend = Dying(stand.backend, after)  # type: ignore[assignment]
    with pytest.raises(Died):
        stand.submit(name)
    assert len(stand.jobs(name)) == after
    stand.start()
    stand.until(lambda: stand.runs(name, 1), "the job runs", 60)
    stand.passes()
    assert len(stand.jobs(name)) == 1
    assert [i.status for i in stand.store.intents(name)] == [IntentStatus.DONE]
    assert stand.attempts(name)[0].ours


def test_a_daemon_that_dies_before_it_tries_has_done_nothing_and_begins_anew(
    stand: Stand, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Died

    stand.chain(name)
    monkeypatch.setattr(Store, "mark_tried", dies)
    with pytest.raises(Died):
        stand.submit(name)
    monkeypatch.undo()
    stand.start()
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    assert len(stand.jobs(name)) == 1
    assert [i.status for i in stand.store.intents(name)] == [IntentStatus.ABANDONED, IntentStatus.DONE]


@pytest.mark.slow(25)
def test_a_daemon_that_dies_right_after_the_record_still_knows_of_the_job_when_the_queue_has_forgotten_it(
    stand: Stand, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind: a closed intent whose job comes, finishes and is forgotten while no daemon lives."""

    def dies(*_: object) -> None:
        raise Died

    stand.chain(name)
    stand.behave(DONE)
    monkeypatch.setattr(Submitting, "_after_try", dies)
    with pytest.raises(Died):
        stand.submit(name)
    monkeypatch.undo()
    [job] = stand.jobs(name)
    stand.cluster.until(
        lambda: all(j.job_id != job.job_id for j in stand.plain_backend().queue(None)), 90, "the controller forgets it"
    )
    stand.start()
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done")
    stand.passes()
    assert [j.job_id for j in stand.jobs(name)] == [job.job_id], stand.sentences


@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_sbatch_that_times_out_before_or_after_acceptance_ends_in_one_job(
    stand: Stand, name: str, lost: str
) -> None:
    stand.chain(name)
    stand.lose(lost)
    stand.start()
    stand.tick()
    stand.store.update_chain(name, retried_at=SystemClock().now())
    stand.tick()
    assert stand.is_(name, ChainState.RECOVERING)
    assert len(stand.jobs(name)) == (lost == "after")
    stand.lose("")
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.passes()
    assert len(stand.jobs(name)) == 1


def test_a_frozen_controller_that_wakes_and_submits_after_all_is_not_asked_twice(breakable: Stand, name: str) -> None:
    stand = breakable
    stand.chain(name)
    stand.start()
    stand.tick()
    stand.store.update_chain(name, retried_at=SystemClock().now())

    class Freezing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self._inner, attribute)

        def submit(self, submission: Submission) -> int:
            stand.cluster.freeze("slurmctld")
            try:
                return int(self._inner.submit(submission))
            finally:
                stand.cluster.thaw("slurmctld")

    stand.backend = Freezing(stand.backend)  # type: ignore[assignment]
    stand.start()
    stand.tick()
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.passes(8)
    assert len(stand.jobs(name)) == 1


# -- ends


def test_a_failure_that_another_try_may_mend_is_tried_again_and_the_chain_is_done_once(stand: Stand, name: str) -> None:
    stand.chain(name)
    stand.behave(NCCL)
    stand.submit(name)
    stand.until(lambda: any(a.job.start for a in stand.attempts(name)), "the job began")
    time.sleep(1)  # it has read what it is to do
    stand.behave(DONE)
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done")
    stand.passes()
    first, second = stand.attempts(name)
    assert first.verdict is not None
    assert first.verdict.cause is Cause.NETWORK_FABRIC
    assert [j.job_id for j in stand.jobs(name)] == [first.job.job_id, second.job.job_id]
    assert sum(s.startswith(f"{name}: done: ") for s in stand.sentences) == 1
    assert second.job.start is not None
    assert first.job.end is not None
    assert second.job.start >= first.job.end


def test_a_job_that_the_user_cancels_rests_and_the_user_is_told(stand: Stand, name: str) -> None:
    stand.chain(name)
    job = stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.cluster.run("scancel", str(job))
    stand.until(lambda: stand.is_(name, ChainState.RESTING), "the chain rests")
    stand.passes()
    assert len(stand.jobs(name)) == 1
    assert [k for k in stand.notices() if k.startswith(f"{name}:resting")]


def test_a_held_job_is_left_alone_and_told_about(stand: Stand, name: str) -> None:
    stand.chain(name, sbatch=[f"--job-name={name}", "--hold"], recovery={"pending_alert": "0s"})
    stand.submit(name)
    stand.passes(3)
    assert stand.is_(name, ChainState.PENDING)
    assert "JobHeldUser" in stand.record(name).sentence
    assert [k for k in stand.notices() if ":pending:" in k]
    assert len(stand.jobs(name)) == 1
    stand.behave(DONE)
    stand.cluster.run("scontrol", "release", str(stand.jobs(name)[0].job_id))
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done")


@pytest.mark.slow(20)
def test_a_requeued_job_comes_back_under_its_id_as_the_next_attempt_and_nothing_is_doubled(
    stand: Stand, name: str
) -> None:
    stand.chain(name, sbatch=[f"--job-name={name}", "--qos=extra-requeue", "--requeue", "--time=10"])
    job = stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.behave(DONE)
    stand.preempt(job)
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done", 90)
    stand.passes()
    first, second = stand.attempts(name)
    assert first.job.job_id == second.job.job_id == job
    assert first.verdict is not None
    assert first.verdict.cause is Cause.PREEMPTION
    assert len(stand.jobs(name)) == 1


def test_where_the_site_resubmits_its_job_is_adopted_and_nothing_is_doubled(stand: Stand, name: str) -> None:
    stand.chain(name, resubmitter={"by": "site", "grace": "30s"})
    job = stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.behave(DONE)
    stand.preempt(job)
    stand.until(lambda: stand.judged(name), "the preemption is judged")
    stand.passes(2)
    assert "site's own resubmission" in stand.record(name).sentence
    options = ("--qos=extra", f"--job-name={name}", f"--output={stand.directory}/%x-%j.out")
    theirs = stand.cluster.sbatch(stand.directory / "train.sh", *options, cwd=stand.directory)
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done")
    stand.passes()
    second = stand.attempts(name)[1]
    assert (second.job.job_id, second.ours) == (theirs, False)
    assert len(stand.jobs(name)) == 2


def test_where_the_site_does_not_resubmit_chainwatch_does_after_the_grace(stand: Stand, name: str) -> None:
    stand.chain(name, resubmitter={"by": "site", "grace": "4s"})
    stand.behave(NCCL)
    stand.submit(name)
    stand.until(lambda: stand.judged(name), "the failure is judged")
    stand.behave(DONE)
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done")
    assert len(stand.jobs(name)) == 2


def test_of_two_live_jobs_only_our_own_pending_one_is_cancelled(stand: Stand, name: str) -> None:
    stand.chain(name, sbatch=[f"--job-name={name}", "--qos=extra", "--begin=now+1hour"], resubmitter="script")
    ours = stand.submit(name)
    stand.passes(2)
    options = (f"--job-name={name}", f"--output={stand.directory}/%x-%j.out")
    theirs = stand.cluster.sbatch(stand.directory / "train.sh", *options, cwd=stand.directory)
    stand.until(lambda: stand.cluster.state(ours) == "CANCELLED", "our pending job is cancelled")
    stand.until(lambda: stand.cluster.state(theirs) == "RUNNING", "their job runs")
    stand.passes()
    assert stand.is_(name, ChainState.RUNNING)
    assert len(stand.jobs(name)) == 2


def test_with_observe_nothing_is_changed_and_what_would_be_done_is_told(stand: Stand, name: str) -> None:
    stand.chain(name)
    stand.behave(NCCL)
    stand.submit(name)
    stand.observe_only = True
    stand.start()
    stand.until(lambda: stand.judged(name), "the failure is judged")
    stand.passes(12)
    assert "would resubmit (the daemon only observes" in stand.record(name).sentence
    assert len(stand.jobs(name)) == 1
    assert sum("would resubmit" in s for _, _, _, s in stand.store.decisions(name)) == 1, "said once"


# -- outages


@pytest.mark.slow(30)
def test_what_happened_while_the_controller_was_down_is_caught_up(breakable: Stand, name: str) -> None:
    stand = breakable
    stand.chain(name)
    stand.behave(f"sleep 4; {NCCL}")
    stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.cluster.stop_daemon("slurmctld")
    before = stand.record(name)
    stand.passes(2)
    assert stand.record(name) == before, "nothing is concluded from silence"
    stand.behave(DONE)
    stand.cluster.start_daemon("slurmctld")
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done", 90)
    assert len(stand.jobs(name)) == 2


@pytest.mark.slow(45)
def test_an_end_that_accounting_missed_waits_for_it_and_is_caught_up(breakable: Stand, name: str) -> None:
    stand = breakable
    stand.chain(name)
    stand.behave(f"sleep 4; {NCCL}")
    stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    stand.cluster.stop_daemon("slurmdbd")
    stand.until(lambda: stand.is_(name, ChainState.RECOVERING), "the end is seen", 60)
    job = stand.attempts(name)[0].job.job_id
    stand.until(
        lambda: all(j.job_id != job for j in stand.plain_backend().queue(None)), "the controller forgets it", 90
    )
    assert not stand.judged(name), "its steps are waited for"
    assert len(stand.store.intents(name)) == 1
    stand.behave(DONE)
    stand.cluster.start_daemon("slurmdbd")
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done", 90)
    assert [a.job.state for a in stand.attempts(name)] == [JobState.FAILED, JobState.COMPLETED]


def test_a_munge_that_is_down_is_silence(breakable: Stand, name: str) -> None:
    stand = breakable
    stand.chain(name)
    stand.behave(FOREVER)
    stand.submit(name)
    stand.until(lambda: stand.runs(name, 1), "the job runs")
    before = stand.record(name)
    stand.cluster.stop_daemon("munged")
    stand.passes(2)
    assert stand.record(name) == before
    stand.cluster.start_daemon("munged")
    stand.passes(3)
    assert stand.is_(name, ChainState.RUNNING)
    assert len(stand.attempts(name)) == 1


def test_a_launch_that_failed_is_released_and_a_persons_hold_is_not(breakable: Stand, name: str) -> None:
    stand = breakable
    stand.chain(name, sbatch=[f"--job-name={name}", "--qos=extra", "--time=10"])
    for node in stand.cluster.nodes[:-1]:
        stand.cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    stand.cluster.fail_launches(stand.cluster.nodes[-1])
    job_id = stand.submit(name)
    stand.until(lambda: [i.kind for i in stand.store.intents(name)][-1:] == ["release"], "the hold is lifted")
    stand.cluster.run("scontrol", "hold", str(job_id))
    stand.passes()
    stand.cluster.run("scontrol", "update", f"NodeName={stand.cluster.nodes[0]}", "State=RESUME")
    stand.passes(8)
    assert [j.reason for j in stand.jobs(name)] == ["JobHeldAdmin"]
    stand.cluster.run("scontrol", "release", str(job_id))
    stand.until(lambda: stand.is_(name, ChainState.RUNNING), "the job runs")
    assert len(stand.jobs(name)) == 1
    assert [i.kind for i in stand.store.intents(name)] == ["submit", "release"]
