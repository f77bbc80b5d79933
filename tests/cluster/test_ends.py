"""Every end that Slurm knows, on a real cluster: state, codes and steps read back, and what they mean.

What the releases record differently is in the helper `legacy`: 22.05 takes 128 off an exit code, and calls a job that
was preempted with a grace time after its step's own exit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from dev.slurm import PrivateCluster

from chainwatch.diagnosis import diagnose
from chainwatch.evidence import LogFile, read_logs
from chainwatch.model.job import Job, JobState, Source
from chainwatch.model.verdict import Cause, Evidence, LogEvidence, Outcome
from chainwatch.slurm import NoInformation
from chainwatch.slurm.paths import log_paths
from tests.cluster import theatre
from tests.cluster.theatre import Theatre

S = JobState


@pytest.fixture(scope="module")
def play(cluster: PrivateCluster) -> Iterator[Theatre]:
    """The evening, played once for all tests of this file."""
    cluster.mend()
    yield theatre.play_all(cluster)
    cluster.mend()


@pytest.fixture(scope="module")
def release(play: Theatre) -> tuple[int, ...]:
    """Release of the installed Slurm: (22, 5)."""
    return tuple(int(number) for number in play.backend.info().version.split(".")[:2])


def steps(job: Job) -> dict[str, tuple[str, str]]:
    """State and code of every step that is not `extern`."""
    return {step.name: (str(step.state), str(step.exit or "")) for step in job.steps if step.name != "extern"}


def outcome(job: Job) -> Outcome:
    """What the product makes of Slurm's facts alone."""
    sources = frozenset({Source.ACCOUNTING, Source.QUEUE})
    return diagnose(Evidence(job, sources, LogEvidence(readable=False, problem="not looked at"))).outcome


@pytest.mark.slow(50)
def test_completed_with_every_step_good(play: Theatre) -> None:
    end = play.end("all_steps_good")
    assert (end.state, str(end.exit), str(end.derived_exit)) == (S.COMPLETED, "0:0", "0:0")
    assert steps(end) == dict.fromkeys(("batch", "0", "1"), ("COMPLETED", "0:0"))
    assert outcome(end) in (Outcome.DONE, Outcome.ENDED)


def test_completed_with_failed_steps_is_not_clean(play: Theatre) -> None:
    end = play.end("a_step_failed")
    assert (end.state, str(end.exit), str(end.derived_exit)) == (S.COMPLETED, "0:0", "3:0")
    assert steps(end)["0"] == ("FAILED", "3:0")
    assert steps(end)["1"][1] == "0:9"
    assert outcome(end) is not Outcome.DONE


def test_completed_before_the_final_step_looks_the_same_to_slurm(play: Theatre) -> None:
    end = play.end("before_the_final_step")
    assert (end.state, str(end.exit)) == (S.COMPLETED, "0:0")
    assert "training finished at step 2" in play.log("before_the_final_step")


def test_failed_after_the_final_step(play: Theatre) -> None:
    end = play.end("after_the_final_step")
    assert end.state is S.FAILED
    assert "training finished at step 3" in play.log("after_the_final_step")
    assert steps(end)["0"][0] == "FAILED"


def test_a_job_whose_output_has_no_directory_dies_without_a_word_and_the_directory_is_named(
    play: Theatre, release: tuple[int, ...]
) -> None:
    end = play.end("no_place_for_output")
    if release > (22, 5) and end.state is S.COMPLETED:
        return  # newer releases make the directory
    assert (end.state, str(end.exit)) == (S.FAILED, "0:53")
    logs = read_logs([LogFile(path) for path in log_paths(end).distinct])
    verdict = diagnose(Evidence(end, frozenset({Source.ACCOUNTING}), logs))
    assert verdict.cause is Cause.USER_CONFIG
    assert verdict.advice == f"Make the directory of its log: mkdir -p {play.cluster.jobs}/none"


def test_exit_1_of_the_batch_script_and_of_a_step(play: Theatre) -> None:
    for part in ("exit_1", "step_exit_1"):
        end = play.end(part)
        assert (end.state, str(end.exit)) == (S.FAILED, "1:0")
        assert outcome(end) is Outcome.FAILED
    assert steps(play.end("step_exit_1"))["0"] == ("FAILED", "1:0")


@pytest.mark.parametrize(("part", "signal"), [("killed", 9), ("segfault", 11)])
def test_a_signal_ends_the_batch_script(play: Theatre, part: str, signal: int) -> None:
    end = play.end(part)
    assert (end.state, str(end.exit)) == (S.FAILED, f"0:{signal}")
    assert outcome(end) is Outcome.FAILED


def test_a_shell_that_reports_its_child_s_signal(play: Theatre, release: tuple[int, ...]) -> None:
    end = play.end("child_killed")
    assert end.state is S.FAILED
    assert str(end.exit) == ("137:0" if release >= (25, 0) else "9:0")


def test_time_limit_whatever_the_trap_returns(play: Theatre) -> None:
    end = play.end("timeout")
    assert (end.state, str(end.exit)) == (S.TIMEOUT, "0:0")
    assert outcome(end) is Outcome.TIMED_OUT
    assert "DUE TO TIME LIMIT" in play.log("timeout")


def test_cancelled_while_running_and_while_pending(play: Theatre) -> None:
    running, pending = play.end("cancelled"), play.end("cancelled_while_pending")
    assert (running.state, pending.state) == (S.CANCELLED, S.CANCELLED)
    assert running.raw_state.startswith("CANCELLED by ")
    assert running.cancelled_by is not None
    assert running.cancelled_by == pending.cancelled_by
    assert running.start is not None
    assert pending.start is None
    assert pending.nodes == ()
    assert outcome(running) is Outcome.CANCELLED


def test_preempted_in_mode_cancel(play: Theatre) -> None:
    end = play.end("preempted")
    assert (end.state, str(end.exit)) == (S.PREEMPTED, "0:0")
    assert end.preempted_at is not None
    assert "DUE TO PREEMPTION" in play.log("preempted")
    assert outcome(end) is Outcome.PREEMPTED


def test_preempted_in_mode_requeue_the_same_id_comes_back(play: Theatre) -> None:
    # 24.11 may start it again before the preemptor, and preempt it once more.
    first, *_, last = play.records("preempted_and_back")
    assert first.job_id == last.job_id
    assert first.attempt.submitted < last.attempt.submitted
    assert first.state in (S.REQUEUED, S.PREEMPTED)
    assert first.end is not None
    assert last.state is S.COMPLETED


@pytest.mark.parametrize(("code", "recorded"), [(1, S.FAILED), (0, S.COMPLETED)])
def test_preempted_with_grace_is_known_by_its_preempt_time_whatever_is_recorded(
    play: Theatre, release: tuple[int, ...], code: int, recorded: JobState
) -> None:
    end = play.end(f"grace_exit_{code}")
    assert end.state is (recorded if release < (23, 0) else S.PREEMPTED)
    assert steps(end)["0"] == (("FAILED", "1:0") if code else ("COMPLETED", "0:0"))
    assert end.preempted_at is not None, "read while the job still ran"
    assert outcome(end) is Outcome.PREEMPTED


def test_scontrol_requeue_opens_a_second_attempt_under_the_same_id(play: Theatre) -> None:
    first, second = play.records("requeued")
    assert (first.job_id, first.state) == (second.job_id, S.REQUEUED)
    assert second.state is S.COMPLETED
    assert second.attempt.submitted > first.attempt.submitted
    assert second.start is not None
    assert second.start > second.attempt.submitted


def test_requeue_held_waits_for_a_person(play: Theatre) -> None:
    job = play.now("requeued_held")
    assert job is not None
    assert job.state in (S.PENDING, S.REQUEUE_HOLD)
    assert job.held
    assert outcome(job) is Outcome.CANCELLED


def test_a_failed_node_ends_the_job_or_brings_the_same_id_back(play: Theatre) -> None:
    end = play.end("node_fail")
    assert end.state is S.NODE_FAIL
    assert end.nodes == ("n4",)
    assert outcome(end) is Outcome.NODE_FAILED
    first, second = play.records("node_fail_and_back")
    assert first.state in (S.NODE_FAIL, S.REQUEUED)
    assert second.state is S.COMPLETED
    assert first.attempt.submitted < second.attempt.submitted


def test_a_node_that_dies_silently_leaves_a_writer(play: Theatre) -> None:
    end = play.end("silent_node")
    assert end.state is S.NODE_FAIL
    assert outcome(end) is Outcome.NODE_FAILED
    node = next(node for node in play.backend.nodes(["n2"]))
    assert node.state == "down"
    assert not node.usable
    assert theatre.heartbeat_age(play.cluster) < 5, "its processes still write"
    play.cluster.revive_node("n2")
    play.cluster.until(lambda: theatre.heartbeat_age(play.cluster) > 5, 30, "slurmd is back and ends them")


@pytest.mark.parametrize(("part", "codes"), [("array_of_one_lane", "010"), ("array", "01")])
def test_array_tasks_are_jobs_with_an_id_of_their_own(play: Theatre, part: str, codes: str) -> None:
    tasks = tasks_of(play, part)
    assert [job.shown_id for job in tasks] == [f"{play.ids[part]}_{index}" for index in range(len(codes))]
    assert "".join(str(job.exit)[0] for job in tasks) == codes
    assert len({job.job_id for job in tasks}) == len(tasks)


def test_an_array_of_one_lane_runs_one_task_after_the_other(play: Theatre) -> None:
    for earlier, later in itertools.pairwise(tasks_of(play, "array_of_one_lane")):
        assert earlier.end is not None
        assert later.start is not None
        assert earlier.end <= later.start
    shown = play.shown["array_of_one_lane"]
    assert shown is not None
    assert shown.array_limit == 1, "the controller tells it; the expanded queue does not"


def tasks_of(play: Theatre, part: str) -> list[Job]:
    """The tasks of an array, in their order, as accounting has them in the time since the play began."""
    begin = min(job.attempt.submitted for job in play.seen.values())
    tasks = [job for job in play.backend.accounting(since=begin) if job.array_job_id == play.ids[part]]
    return sorted(tasks, key=lambda job: job.shown_id)


def test_components_of_a_het_job_end_each_for_itself(play: Theatre) -> None:
    leader = play.ids["het"]
    # A component whose partner cannot start yet is started and at once requeued: the newest record of each counts.
    parts = {job.shown_id: job for job in play.backend.accounting([leader, leader + 1])}
    assert {shown: job.job_id for shown, job in parts.items()} == {f"{leader}+0": leader, f"{leader}+1": leader + 1}
    assert {job.state for job in parts.values()} == {S.COMPLETED}


def test_a_dependency_that_cannot_be_met_waits_or_cancels(play: Theatre) -> None:
    waits = play.now("dependency_stays")
    assert waits is not None
    assert (waits.state, waits.reason) == (S.PENDING, "DependencyNeverSatisfied")
    gone = play.end("dependency_goes")
    assert gone.state is S.CANCELLED
    assert gone.start is None


def test_held_by_the_user_or_by_an_administrator(play: Theatre) -> None:
    for who, reason in (("user", "JobHeldUser"), ("admin", "JobHeldAdmin")):
        job = play.now(f"held_by_{who}")
        assert job is not None
        assert (job.state, job.reason) == (S.PENDING, reason)
        assert job.held


@pytest.mark.parametrize(
    "text",
    ["a|b|c", "two\nlines", "'single' and \"double\"", "bytes \udcff\udcfe of Latin-1 \udce9", "$(touch x) `id` ; <b>"],
)
def test_any_name_and_comment_come_back_as_they_were_given(play: Theatre, text: str) -> None:
    job = play.cluster.sbatch("true", f"--job-name={text}", f"--comment={text}", "--nodelist=n1")
    queued = next(found for found in play.backend.queue(None) if found.job_id == job)
    assert queued.comment == text
    shown = play.backend.job(job)
    assert shown is not None
    assert shown.job_id == job
    play.cluster.wait(job, "COMPLETED")
    play.until(lambda: bool(rows := play.backend.accounting([job])) and rows[0].state.terminal, 20, "sacct knows it")
    (recorded,) = play.backend.accounting([job])
    assert (recorded.state, str(recorded.exit)) == (S.COMPLETED, "0:0")


@pytest.mark.slow(30)
def test_gone_from_the_queue_and_not_in_accounting_is_no_end(play: Theatre) -> None:
    cluster = play.cluster
    cluster.stop_daemon("slurmdbd")
    try:
        vanished = cluster.sbatch("exit 3", "--nodelist=n1")
        cluster.until(lambda: play.backend.job(vanished) is None, 90, "the controller forgets the job")
        assert all(job.job_id != vanished for job in play.backend.queue(None))
        with pytest.raises(NoInformation):
            play.backend.accounting([vanished])
    finally:
        cluster.start_daemon("slurmdbd")

    def known() -> bool:
        try:
            rows = play.backend.accounting([vanished])
        except NoInformation:
            return False
        return bool(rows) and rows[0].state.terminal

    play.until(known, 60, "accounting has caught up")
    (late,) = play.backend.accounting([vanished])
    assert (late.state, str(late.exit)) == (S.FAILED, "3:0")
