"""Whose hold is lifted: Slurm's own after a failed launch of our job, and our own. No person's, ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.recovery.holds import MOST_RELEASES, MOST_TRIES, PAUSE, HeldJob, to_release

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def held(reason: str, *, ours: bool = True, by_us: bool = False, **past: Any) -> HeldJob:
    job = Job(AttemptId("alpha", 7, NOW), "7", JobState.PENDING, Source.QUEUE, reason=reason, priority=0)
    return HeldJob(job, ours, by_us, **past)


@pytest.mark.parametrize("reason", ["launch failed requeued held", "launch_failed_requeued_held"])
def test_a_failed_launch_is_released_in_both_spellings(reason: str) -> None:
    decision = to_release(held(reason), NOW, launch_failures=True)
    assert decision is not None
    assert "its launch failed" in decision.why


@pytest.mark.parametrize(
    "reason", ["JobHeldUser", "JobHeldAdmin", "job requeued in held state", "None", "Priority", "QOSNotAllowed"]
)
def test_no_other_hold_is_lifted(reason: str) -> None:
    assert to_release(held(reason), NOW, launch_failures=True) is None


def test_somebody_elses_job_is_not_released() -> None:
    assert to_release(held("launch failed requeued held", ours=False), NOW, launch_failures=True) is None


def test_the_configuration_may_forbid_it() -> None:
    assert to_release(held("launch failed requeued held"), NOW, launch_failures=False) is None


def test_a_job_whose_launch_goes_on_failing_is_left_to_a_person() -> None:
    assert to_release(held("launch failed requeued held", releases=MOST_RELEASES - 1), NOW, launch_failures=True)
    assert to_release(held("launch failed requeued held", releases=MOST_RELEASES), NOW, launch_failures=True) is None


def test_our_own_hold_is_lifted_and_not_an_administrators_on_top_of_it() -> None:
    assert to_release(held("JobHeldUser", by_us=True), NOW, launch_failures=False)
    assert to_release(held("JobHeldAdmin", by_us=True), NOW, launch_failures=True) is None


def test_a_release_that_was_refused_is_tried_again_after_a_pause_and_not_for_ever() -> None:
    def tried(ago: timedelta, tries: int = 1) -> HeldJob:
        return held("launch failed requeued held", tries=tries, tried=NOW - ago, refused=True)

    assert to_release(tried(PAUSE / 2), NOW, launch_failures=True) is None
    assert to_release(tried(PAUSE), NOW, launch_failures=True)
    assert to_release(tried(PAUSE, MOST_TRIES), NOW, launch_failures=True) is None
