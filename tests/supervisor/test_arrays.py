"""Arrays whose tasks are quicker than the polls, or whose daemon was away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chainwatch.model.chain import Attempt, ChainState, Mode
from chainwatch.model.job import Job, JobState
from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.supervisor.arrays import array_of, unwatched
from chainwatch.supervisor.sight import Known, assign, missed
from tests.supervisor.jobs import NOW, queued, recorded
from tests.supervisor.play import Play

VERDICT = Verdict(Outcome.FAILED, Cause.UNKNOWN, Retry.YES, 0.5, "it ended")


def raw(number: int) -> int:
    """The last task of the array 12 has its id; those that started before it have ids of their own."""
    return 12 if number == 2 else 13 + number


def task(number: int, state: JobState = JobState.FAILED) -> Job:
    return recorded(state, raw(number), array_job_id=12, array_task=str(number))


def chain(state: ChainState = ChainState.RUNNING, **facts: Any) -> ChainRecord:
    return ChainRecord("lane", "alpha", Origin.SBATCH, Mode.ACT, {}, NOW, NOW, facts=facts, state=state)


def attempt(number: int, judged: bool = False) -> Attempt:
    return Attempt(task(number), number + 1, ours=True, verdict=VERDICT if judged else None)


def test_tasks_of_an_array_come_in_the_order_of_their_numbers_and_not_of_their_ids() -> None:
    rest = queued(JobState.PENDING, 12, array_job_id=12, array_task="[3-4]")
    jobs = [replace(rest), *(queued(JobState.FAILED, raw(n), array_job_id=12, array_task=str(n)) for n in (2, 0, 1))]
    found = assign(jobs, [Known("lane", "ada", {}, array_id=12)], "0123abcd")
    assert [job.array_task for job in found["lane"]] == ["0", "1", "2", "[3-4]"]


def test_what_came_and_went_unseen_is_what_accounting_has_after_the_newest_that_is_known() -> None:
    other = replace(task(1), array_job_id=99)
    records = [task(2), task(1), task(0), other, replace(task(2), array_task="[3-4]")]
    assert [j.array_task for j in missed(records, [task(0)], 12, None)] == ["1", "2"]
    assert [j.array_task for j in missed(records, [], 12, None)] == ["0", "1", "2"]
    assert [j.array_task for j in missed(records, [task(1)], 12, None)] == ["2"], "what is past is past"


def test_a_task_that_accounting_has_running_was_not_missed_for_accounting_may_be_late() -> None:
    assert missed([task(1, JobState.RUNNING)], [], 12, None) == ()


def test_of_a_chain_that_is_one_task_only_that_one_counts_and_once() -> None:
    assert [j.array_task for j in missed([task(0), task(1)], [], 12, "1")] == ["1"]
    assert missed([task(1)], [task(1)], 12, "1") == ()


@pytest.mark.parametrize(
    ("facts", "attempts", "expected"),
    [
        ({}, [], (None, None)),
        ({}, [attempt(0)], (12, None)),
        ({"array": {"id": None, "task": None}}, [], (None, None)),
        ({"array": {"id": 30, "task": None}}, [attempt(0)], (30, None)),
        ({"array": {"id": 12, "task": "2"}}, [], (12, "2")),
    ],
)
def test_the_array_is_that_of_the_newest_submission(
    facts: dict[str, Any], attempts: list[Attempt], expected: tuple[int | None, str | None]
) -> None:
    assert array_of(chain(**facts), attempts) == expected


def test_accounting_is_asked_only_where_a_task_may_have_been_missed() -> None:
    lane = chain(array={"id": 12, "task": None})
    since = [NOW - timedelta(minutes=1)]
    alive = queued(JobState.PENDING, 12, array_job_id=12, array_task="[1-2]")
    ended = queued(JobState.FAILED, 13, array_job_id=12, array_task="0")
    assert unwatched(lane, [attempt(0)], [ended]) == since
    assert unwatched(lane, [attempt(0)], [ended, alive]) == [], "the next one waits already"
    assert unwatched(lane, [attempt(0, judged=True)], []) == [], "it was asked when that one was judged"
    assert unwatched(chain(ChainState.PENDING, array={"id": 12, "task": "1"}), [], []) == since
    assert unwatched(chain(ChainState.STOPPED, array={"id": 12, "task": "1"}), [], []) == []
    assert unwatched(chain(), [], []) == [], "no array at all"


def test_an_array_whose_tasks_run_side_by_side_is_not_submitted_as_one_chain(play: Play) -> None:
    """The kind: two jobs of one chain at a time, here by one sbatch."""
    play.chain("wide", sbatch=["--job-name=wide", "--array=0-3"])
    play.chain("lane", sbatch=["--job-name=lane", "--array=0-3%1"])
    play.submit("wide", "lane")
    assert len(play.live("lane")) >= 1
    assert not play.live("wide")
    assert play.state("wide") is ChainState.STOPPED
    assert "--array=0-3 runs 4 tasks side by side" in play.record("wide").sentence
