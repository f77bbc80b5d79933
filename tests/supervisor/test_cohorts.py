"""One mistake in a template: its chains are stopped together, with one alert, and retried together."""

from __future__ import annotations

import pytest

from chainwatch.actions import wishes
from chainwatch.model.chain import ChainState
from chainwatch.model.verdict import Cause, Finding, Line, LogEvidence, Retry
from chainwatch.simulation import batch
from tests.supervisor.play import Play

NAMES = ("a", "b", "c")


def says(play: Play, cause: Cause, text: str, retry: Retry) -> None:
    line = Line("/home/ada/log", 9, text)
    play.files.logs = LogEvidence(findings=(Finding("x/y", cause, 80, line, 9, retry=retry),))


def sweep(play: Play, names: tuple[str, ...], seconds: int = 60) -> None:
    for name in names:
        play.chain(name, batch(seconds, 1), template="sweep", sbatch=[f"--job-name={name}", "--cpus-per-task=1"])


def alerts(play: Play) -> list[str]:
    return [n.key for n in play.store.undelivered()]


def test_three_chains_that_fail_alike_at_once_are_stopped_with_one_alert(play: Play) -> None:
    says(play, Cause.USER_CODE, "KeyError: 'lr'", Retry.NO)
    sweep(play, NAMES)
    play.submit(*NAMES)
    play.until(lambda: all(play.state(name) is ChainState.STOPPED for name in NAMES))
    [told] = [n for n in play.store.undelivered() if n.severity == "critical"]
    assert told.title == "3 chains of sweep failed in the same way, and none is retried"
    assert "chainwatch retry --cohort a" in str(told.body)
    assert "3 chains of sweep failed in the same way (a, b, c): KeyError: 'lr'." in play.record("b").sentence
    assert "`chainwatch retry --cohort b`" in play.record("b").sentence


def test_retries_that_are_under_way_do_not_hide_a_cohort(play: Play) -> None:
    """They fail twenty minutes apart, and each is retried before the next one fails."""
    says(play, Cause.UNKNOWN, "boom", Retry.YES)
    sweep(play, NAMES, seconds=1200)
    for name in NAMES:
        play.submit(name)
        play.passes(25)
    play.until(lambda: play.state("c") is ChainState.STOPPED)
    assert len(play.store.attempts("c")) == 1, "the third chain is not retried at all"
    play.until(lambda: play.state("b") is ChainState.STOPPED)
    assert play.state("a") is ChainState.RESTING, "it had used its retries up alone"
    assert len([key for key in alerts(play) if key.startswith("cohort")]) == 1
    assert not [key for key in alerts(play) if key.startswith(("b:stopped", "c:stopped"))]


def test_a_chain_of_the_template_that_ended_of_something_else_goes_on(play: Play) -> None:
    says(play, Cause.USER_CODE, "KeyError: 'lr'", Retry.NO)
    sweep(play, NAMES)
    play.chain("d", batch(7200), template="sweep", sbatch=["--job-name=d", "--no-requeue", "--cpus-per-task=1"])
    play.submit(*NAMES, "d")
    play.until(lambda: all(play.state(name) is ChainState.STOPPED for name in NAMES))
    play.files.logs = LogEvidence()
    [job] = play.live("d")
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: len(play.store.attempts("d")) == 2)


def test_a_cohort_is_retried_together_and_told_again_if_it_fails_again(play: Play) -> None:
    says(play, Cause.USER_CODE, "KeyError: 'lr'", Retry.NO)
    sweep(play, NAMES)
    play.submit(*NAMES)
    play.until(lambda: all(play.state(name) is ChainState.STOPPED for name in NAMES))
    wishes.retry(play.store, play.record("b"), play.clock.now(), cohort=True)
    play.until(lambda: all(len(play.store.attempts(name)) == 2 for name in NAMES))
    play.until(lambda: all(play.state(name) is ChainState.STOPPED for name in NAMES))
    assert len([key for key in alerts(play) if key.startswith("cohort")]) == 2


@pytest.mark.parametrize("text", ["Bus error", "Illegal instruction"])
def test_two_chains_are_no_cohort(play: Play, text: str) -> None:
    says(play, Cause.USER_CODE, text, Retry.NO)
    sweep(play, NAMES[:2])
    play.submit(*NAMES[:2])
    play.until(lambda: all(play.state(name) is ChainState.STOPPED for name in NAMES[:2]))
    assert not [key for key in alerts(play) if key.startswith("cohort")]
