"""Which ends are a cohort's: the same root line in three chains of one template or script."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.diagnosis.cohorts import find_cohorts, may_be_one, not_outlived, part_of
from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause, Outcome
from tests.recovery.build import NOW, ended

LINE = "ImportError: no module named flash_attn"


def failed(cause: Cause = Cause.ENVIRONMENT, line: str | None = LINE, **past: object) -> Attempt:
    attempt = ended(cause, fingerprint="environment:1", **past)  # type: ignore[arg-type]
    assert attempt.verdict is not None
    return replace(attempt, verdict=replace(attempt.verdict, root_line=line))


def test_the_same_line_in_three_chains_of_one_template_is_a_cohort() -> None:
    last = {name: ("sweep", failed()) for name in "abc"}
    [cohort] = find_cohorts(last).values()
    assert cohort.sentence() == "3 chains of sweep failed in the same way (a, b, c)"
    assert cohort.line == LINE


def test_two_chains_or_three_of_different_templates_or_failures_are_none() -> None:
    assert not find_cohorts({name: ("sweep", failed()) for name in "ab"})
    assert not find_cohorts({name: (f"sweep-{name}", failed()) for name in "abc"})
    other = failed()
    assert other.verdict is not None
    other = replace(other, verdict=replace(other.verdict, fingerprint="environment:2"))
    assert not find_cohorts({"a": ("sweep", failed()), "b": ("sweep", failed()), "c": ("sweep", other)})


@pytest.mark.parametrize("cause", [Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.STORAGE, Cause.HARDWARE_NODE])
def test_what_the_cluster_does_is_no_mistake_of_a_template(cause: Cause) -> None:
    assert not find_cohorts({name: ("sweep", failed(cause)) for name in "abc"})


def test_ends_without_a_line_are_not_known_to_be_the_same() -> None:
    assert not find_cohorts({name: ("sweep", failed(Cause.UNKNOWN, None)) for name in "abc"})


def test_a_cohort_has_one_name_whatever_numbers_stand_in_its_lines() -> None:
    other = {"a": ("sweep", failed(line="rank 3: boom")), **{name: ("sweep", failed()) for name in "bcd"}}
    [three] = find_cohorts({name: ("sweep", failed()) for name in "bcd"}).values()
    [four] = find_cohorts(other).values()
    assert three.key == four.key


def test_a_chain_that_ended_of_something_else_is_no_part_of_it() -> None:
    cohorts = find_cohorts({name: ("sweep", failed()) for name in "abc"})
    assert part_of(cohorts, "sweep", [ended(Cause.PREEMPTION), failed()]) is not None
    assert part_of(cohorts, "sweep", [failed(), ended(Cause.PREEMPTION)]) is None
    assert part_of(cohorts, "other", [failed()]) is None


def test_a_failure_counts_until_the_next_job_has_run_for_longer() -> None:
    last = failed(minutes=30, ago=100)
    running = replace(ended(Cause.UNKNOWN, minutes=0), verdict=None, ended=None)

    def since(minutes: float | None) -> Attempt:
        start = None if minutes is None else NOW - timedelta(minutes=minutes)
        return replace(running, job=replace(running.job, start=start))

    assert not_outlived([last], NOW) is last
    assert not_outlived([last, since(None)], NOW) is last
    assert not_outlived([last, since(34)], NOW) is last
    assert not_outlived([last, since(36)], NOW) is None
    assert not_outlived([], NOW) is None


def test_it_is_worth_a_poll_only_where_three_share_a_template() -> None:
    verdict = failed().verdict
    assert verdict is not None
    assert may_be_one(verdict, 3)
    assert not may_be_one(verdict, 2)
    assert not may_be_one(replace(verdict, outcome=Outcome.PREEMPTED), 3)
