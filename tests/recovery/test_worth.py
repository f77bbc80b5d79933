"""What an attempt cost and what it left: the fallback queue, and a time limit that fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.model.chain import Attempt, Resubmit
from chainwatch.model.verdict import Cause as C
from chainwatch.recovery import decide
from chainwatch.recovery.time_limit import fitted
from chainwatch.recovery.worth import cost_more_than_it_computed, kept, pace
from tests.recovery.build import ended, situation

FALLBACK = {"fallback_sbatch": ["--qos=normal"], "sbatch": ["--nice=5"]}


def preempted(*, before: int, saved: int, reached: int, minutes: float = 60, ago: float = 0) -> Attempt:
    return ended(C.PREEMPTION, before=before, saved=saved, step=reached, minutes=minutes, ago=ago)


def options(*past: Attempt, **recovery: object) -> tuple[str, ...]:
    decision = decide(situation(*past, recovery=recovery))
    assert isinstance(decision, Resubmit)
    return decision.extra


def test_a_preemption_that_saved_half_an_hour_of_an_hour_was_worth_it() -> None:
    attempt = preempted(before=0, saved=60, reached=100)
    assert pace([attempt]) == timedelta(seconds=36)
    assert kept(attempt, [attempt]) == timedelta(minutes=36)
    assert not cost_more_than_it_computed(attempt, [attempt])


def test_steps_that_no_checkpoint_kept_are_cost() -> None:
    attempt = preempted(before=0, saved=40, reached=100)
    assert cost_more_than_it_computed(attempt, [attempt])


def test_a_long_start_up_is_cost_too() -> None:
    long_ago = preempted(before=0, saved=100, reached=100, minutes=100, ago=300)
    slow_start = preempted(before=100, saved=120, reached=120)
    assert cost_more_than_it_computed(slow_start, [long_ago, slow_start])
    assert not cost_more_than_it_computed(slow_start, [slow_start]), "by itself nothing says how long a step takes"


def test_what_nothing_measures_is_not_held_against_an_attempt_that_saved() -> None:
    attempt = replace(preempted(before=0, saved=10, reached=10), ended=None)
    assert not cost_more_than_it_computed(attempt, [attempt])


def test_the_fallback_comes_after_three_preemptions_that_each_cost_more_than_they_computed() -> None:
    past = [preempted(before=10 * i, saved=10 * i + 10, reached=10 * i + 90, ago=200 - 60 * i) for i in range(3)]
    assert options(*past, **FALLBACK) == ("--nice=5", "--qos=normal")


def test_one_preemption_that_was_worth_it_keeps_the_cheap_queue() -> None:
    past = [preempted(before=10 * i, saved=10 * i + 10, reached=10 * i + 90, ago=200 - 60 * i) for i in range(3)]
    past[1] = preempted(before=10, saved=90, reached=90, ago=140)
    assert options(*past, **FALLBACK) == ("--nice=5",)


def test_two_in_vain_are_not_three() -> None:
    past = [preempted(before=10 * i, saved=10 * i, reached=10 * i + 90, ago=100 - 60 * i) for i in range(2)]
    assert options(*past, **FALLBACK) == ("--nice=5",)


def with_limit(attempt: Attempt, hours: float) -> Attempt:
    return replace(attempt, job=replace(attempt.job, time_limit=timedelta(hours=hours)))


def test_a_recovery_job_asks_for_the_time_that_the_remaining_steps_need() -> None:
    last = with_limit(preempted(before=0, saved=10, reached=60), 24)
    decision = decide(situation(last, recovery={"fit_time": "30m"}, done={"step": 130}))
    assert isinstance(decision, Resubmit)
    assert decision.extra == ("--time=180",), "120 steps of a minute, a quarter more, and half an hour"
    assert "asks for 180 minutes" in decision.why


def test_the_users_own_options_win_over_a_fitted_limit() -> None:
    last = with_limit(preempted(before=0, saved=10, reached=60), 24)
    decision = decide(situation(last, recovery={"fit_time": "30m", "sbatch": ["--time=60"]}, done={"step": 130}))
    assert isinstance(decision, Resubmit)
    assert decision.extra == ("--time=180", "--time=60")


def test_the_final_step_may_come_from_the_log() -> None:
    last = with_limit(preempted(before=0, saved=10, reached=60), 24)
    asked = replace(situation(last, recovery={"fit_time": "30m"}), target=130)
    decision = decide(asked)
    assert isinstance(decision, Resubmit)
    assert decision.extra == ("--time=180",)


@pytest.mark.parametrize(
    ("hours", "target", "margin"),
    [(2, 130, 30), (24, None, 30), (24, 130, None)],
    ids=["longer than the script's limit", "no final step known", "not configured"],
)
def test_a_limit_is_never_made_longer_nor_guessed(hours: float, target: int | None, margin: int | None) -> None:
    last = with_limit(preempted(before=0, saved=10, reached=60), hours)
    assert fitted([last], 10, target, None if margin is None else timedelta(minutes=margin)) is None


def test_an_unlimited_job_stays_unlimited() -> None:
    assert fitted([preempted(before=0, saved=10, reached=60)], 10, 130, timedelta(0)) is None
