"""A chain alone whose job failed of its storage goes on when a probe finds the storage working, and not before."""

from __future__ import annotations

import pytest

from chainwatch.model.chain import ChainState
from chainwatch.model.verdict import Cause, Finding, Line, LogEvidence, Retry
from chainwatch.simulation import batch
from chainwatch.supervisor.readers import Silent
from tests.supervisor.play import Play

FULL = Line("/home/ada/log", 9, "OSError: [Errno 28] No space left on device")


@pytest.fixture
def failed(play: Play) -> Play:
    play.files.logs = LogEvidence(findings=(Finding("storage/full", Cause.STORAGE, 80, FULL, 9, retry=Retry.WAIT),))
    play.files.broken = "/home/ada/.chainwatch/probe cannot be written: No space left on device"
    play.chain("a", batch(60, 1))
    play.submit("a")
    play.until(lambda: play.store.attempts("a")[0].verdict)
    return play


def test_nothing_is_submitted_into_a_full_disk_and_a_person_hears_after_half_an_hour(failed: Play) -> None:
    failed.passes(10)
    assert len(failed.calls("submit")) == 1
    assert failed.state("a") is ChainState.WAITING
    assert "its storage does not work yet: /home/ada/.chainwatch/probe cannot be written" in failed.record("a").sentence
    assert not failed.store.active_notices("a")
    failed.passes(30)
    [told] = failed.store.active_notices("a")
    assert "cannot go on by itself" in told.title
    failed.files.broken, failed.files.logs = "", LogEvidence()
    failed.passes(3)
    assert len(failed.calls("submit")) == 2


def test_storage_that_hangs_is_waited_for_and_not_for_ever(failed: Play) -> None:
    failed.files.broken = Silent("the storage does not answer")
    failed.passes(30)
    assert len(failed.calls("submit")) == 1
    failed.passes(345)
    assert len(failed.calls("submit")) > 1, "after six hours a job may see more than a probe does"


def test_a_persons_retry_does_not_wait_for_the_probe(failed: Play) -> None:
    failed.passes(5)
    failed.store.update_chain("a", retried_at=failed.clock.now())
    failed.passes(2)
    assert len(failed.calls("submit")) == 2


def test_two_quick_ends_of_an_outage_are_no_reason_to_stop(failed: Play) -> None:
    failed.files.broken = ""
    failed.until(lambda: len([a for a in failed.store.attempts("a") if a.verdict]) == 2)
    failed.passes(1)
    assert failed.state("a") is not ChainState.STOPPED
