"""What an end costs, and how it is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.store import Store, open_store
from chainwatch.supervisor.counting import ended, lost
from tests.web.samples import attempt, verdict

PREEMPTED = verdict(Outcome.PREEMPTED, Cause.PREEMPTION, "preempted")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "state")
    yield store
    store.close()


def run(reached: int | None, saved: int | None, before: int | None = 1000) -> Attempt:
    """Ten hours of training."""
    return replace(
        attempt(1, 20, 10, PREEMPTED), step_after=reached, saved_after=saved, saved_before=before, step_before=before
    )


@pytest.mark.parametrize(
    ("one", "hours"),
    [
        (run(2000, 1900), 1),
        (run(2000, 2000), 0),
        (run(2000, None), 10),
        (run(2000, 1000), 10),
        (run(1000, 1000), 0),
        (run(None, None), 0),
        (run(500, 400, None), 2),
        (run(900, 1000), 0),
    ],
)
def test_lost_work_is_the_time_of_the_steps_that_no_intact_checkpoint_holds(one: Attempt, hours: float) -> None:
    assert lost(one) == timedelta(hours=hours)


def test_what_comes_after_the_last_save_of_a_run_that_is_done_is_not_lost() -> None:
    done = verdict(Outcome.DONE, Cause.COMPLETED, "final step reached")
    assert lost(replace(run(2000, 1900), verdict=done)) == timedelta(0)


def test_an_attempt_that_never_started_lost_nothing() -> None:
    one = run(2000, 1000)
    assert lost(replace(one, job=replace(one.job, start=None))) == timedelta(0)


def test_an_end_raises_each_counter_once(store: Store) -> None:
    first, second = run(2000, 1900), replace(attempt(2, 5, 1, PREEMPTED), ours=False)
    ended(store, "a", first, ())
    ended(store, "a", second, (first,))
    ended(store, "a", replace(attempt(2, 2, 1, PREEMPTED)), (first, second))
    found = {(name, *labels.values()): value for name, labels, value in store.counters()}
    assert found["attempts_ended", "preemption", "a", "preempted"] == 3
    assert found["lost_work_seconds", "a"] == 3600
    assert found["queue_wait_seconds", "a"] == 3 * 20 * 60
    assert found["submissions", "a", "other"] == 1
    assert found["submissions", "a", "requeue"] == 1
    assert found["downtime_seconds", "a"] > 0


def test_an_attempt_that_is_not_judged_is_not_counted(store: Store) -> None:
    ended(store, "a", replace(run(2000, 1900), verdict=None), ())
    assert store.counters() == []
