"""Whether an attempt has ended: silence is never an answer, and the queue outranks accounting's memory."""

from __future__ import annotations

import pytest

from chainwatch.model.job import Job, JobState, Snapshot, Source
from chainwatch.supervisor.ends import Alive, Ended, Unknown, judge
from tests.supervisor.jobs import BOTH, MINUTE, NOW, queued, recorded, snapshot

KNOWN = queued(JobState.RUNNING, start=NOW, nodes=("n1",))
ALIVE = [s for s in JobState if not s.terminal and s is not JobState.UNKNOWN]
OVER = [s for s in JobState if s.terminal and s is not JobState.REVOKED]
QUEUE, ACCOUNTING = frozenset({Source.QUEUE}), frozenset({Source.ACCOUNTING})
NOBODY: frozenset[Source] = frozenset()
LATER = NOW + MINUTE


@pytest.mark.parametrize("state", ALIVE)
def test_a_live_word_of_the_queue_is_life_whatever_accounting_says(state: JobState) -> None:
    for over in (JobState.PREEMPTED, JobState.NODE_FAIL, JobState.COMPLETED):
        answer = judge(KNOWN, snapshot((queued(state),), (recorded(over),)))
        assert isinstance(answer, Alive)
        assert not answer.job.state.terminal


@pytest.mark.parametrize("state", OVER)
def test_a_final_word_of_the_queue_is_an_end_whose_steps_may_still_come(state: JobState) -> None:
    assert judge(KNOWN, snapshot((queued(state),))) == Ended(judge_job(queued(state)), complete=False)
    answer = judge(KNOWN, snapshot((queued(state),), (recorded(JobState.RUNNING),)))
    assert isinstance(answer, Ended)
    assert not answer.complete, "accounting has a row, and it is late"
    answer = judge(KNOWN, snapshot((queued(state),), (recorded(state),)))
    assert isinstance(answer, Ended)
    assert answer.complete


@pytest.mark.parametrize(
    "seen",
    [
        snapshot((queued(JobState.REVOKED),)),
        snapshot((), (recorded(JobState.REVOKED),)),
        snapshot((queued(JobState.REVOKED),), (recorded(JobState.REVOKED),)),
    ],
)
def test_a_sibling_that_another_cluster_of_the_federation_started_is_no_end(seen: Snapshot) -> None:
    answer = judge(KNOWN, seen)
    assert isinstance(answer, Unknown)
    assert answer.elsewhere
    assert answer.silent, "nobody's word makes it an end: it goes on"


def test_a_sibling_that_came_back_by_a_requeue_is_over() -> None:
    answer = judge(KNOWN, snapshot((queued(JobState.PENDING, submitted=LATER),), (recorded(JobState.REVOKED),)))
    assert isinstance(answer, Ended)
    assert answer.requeued


def judge_job(seen: Job) -> Job:
    return KNOWN.merged(seen)


@pytest.mark.parametrize("state", OVER)
def test_a_final_word_of_accounting_is_an_end_once_the_queue_answered_without_it(state: JobState) -> None:
    answer = judge(KNOWN, snapshot((), (recorded(state),)))
    assert isinstance(answer, Ended)
    assert (answer.job.state, answer.complete, answer.requeued) == (state, True, False)
    assert answer.job.nodes == ("n1",), "what was known is kept"


@pytest.mark.parametrize(
    ("seen", "silent"),
    [
        (snapshot(answered=NOBODY), True),
        (snapshot(answered=ACCOUNTING), True),
        (snapshot(answered=QUEUE), True),
        (snapshot((), (recorded(JobState.PREEMPTED),), ACCOUNTING), True),
        (snapshot((), (recorded(JobState.COMPLETED),), ACCOUNTING), True),
        (snapshot(answered=BOTH), False),
        (snapshot((), (recorded(JobState.RUNNING),)), False),
        (snapshot((), (recorded(JobState.PENDING),)), False),
        (snapshot((), (recorded(JobState.UNKNOWN),)), False),
        (snapshot((queued(JobState.UNKNOWN),)), False),
        (snapshot((queued(JobState.UNKNOWN),), answered=QUEUE), True),
        (snapshot((queued(JobState.RUNNING, job_id=8),), (recorded(JobState.FAILED, job_id=8),)), False),
    ],
)
def test_silence_absence_and_unknown_words_are_never_an_end(seen: Snapshot, silent: bool) -> None:
    answer = judge(KNOWN, seen)
    assert isinstance(answer, Unknown)
    assert answer.silent is silent
    assert answer.why


def test_the_reason_of_a_silent_source_is_told() -> None:
    answer = judge(KNOWN, snapshot(answered=NOBODY))
    assert isinstance(answer, Unknown)
    assert "squeue did not answer: timed out" in answer.why


@pytest.mark.parametrize("state", [s for s in OVER if s.may_return])
def test_a_requeued_job_is_two_attempts_the_old_one_over_and_the_new_one_alive(state: JobState) -> None:
    again = queued(JobState.PENDING, submitted=LATER)
    seen = snapshot((again,), (recorded(state), recorded(JobState.PENDING, submitted=LATER)))
    old = judge(KNOWN, seen)
    assert isinstance(old, Ended)
    assert (old.requeued, old.complete, old.job.state) == (True, True, state)
    assert isinstance(judge(again, seen), Alive)


def test_accounting_that_still_says_preempted_of_the_new_identity_does_not_end_it() -> None:
    again = queued(JobState.PENDING, submitted=LATER)
    stale = recorded(JobState.PREEMPTED, submitted=LATER)
    assert isinstance(judge(again, snapshot((again,), (stale,))), Alive)


def test_a_requeue_is_an_end_before_accounting_says_so_and_not_yet_complete() -> None:
    old = judge(KNOWN, snapshot((queued(JobState.PENDING, submitted=LATER),), answered=QUEUE))
    assert isinstance(old, Ended)
    assert (old.requeued, old.complete) == (True, False)


def test_an_older_job_of_the_same_id_says_nothing_about_this_one() -> None:
    ancient = recorded(JobState.COMPLETED, submitted=NOW - 10_000 * MINUTE, name="other", user="bob")
    assert isinstance(judge(KNOWN, snapshot((), (ancient,))), Unknown)
    assert isinstance(judge(KNOWN, snapshot((queued(),), (ancient,))), Alive)


def test_another_cluster_with_the_same_id_says_nothing() -> None:
    from dataclasses import replace

    other = queued(JobState.FAILED)
    other = replace(other, attempt=replace(other.attempt, cluster="beta"))
    assert isinstance(judge(KNOWN, snapshot((other,))), Unknown)


def test_a_runaway_record_is_named_as_one() -> None:
    answer = judge(KNOWN, snapshot((), (recorded(JobState.RUNNING),)))
    assert isinstance(answer, Unknown)
    assert "runaway" in answer.why


def test_a_preempt_time_that_was_seen_once_is_in_the_end() -> None:
    known = queued(JobState.RUNNING, preempted_at=NOW)
    answer = judge(known, snapshot((), (recorded(JobState.FAILED, end=LATER),)))
    assert isinstance(answer, Ended)
    assert (answer.job.preempted_at, answer.job.end) == (NOW, LATER)


def test_what_was_known_as_over_stays_over_when_everything_forgets_it() -> None:
    """The kind: a judged end taken back because a later poll has nothing to say."""
    answer = judge(recorded(JobState.FAILED), snapshot())
    assert isinstance(answer, Ended)
    assert answer.job.state is JobState.FAILED
