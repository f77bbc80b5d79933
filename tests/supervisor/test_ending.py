"""A chain without a live job: what people want of it, and what it is."""

from __future__ import annotations

from datetime import datetime

import pytest

from chainwatch.actions import wishes
from chainwatch.model.chain import ChainState, Desired
from chainwatch.model.job import Job
from chainwatch.model.verdict import Cause, Completion, Finding, Line, LogEvidence, Proof, Retry
from chainwatch.simulation import batch
from chainwatch.supervisor.readers import LeftBehind, Place
from tests.supervisor.play import Play


def test_a_chain_that_is_done_stays_so_when_a_person_stops_it(play: Play) -> None:
    play.chain("run", batch(100))
    play.submit("run")
    play.until(lambda: play.state("run") is ChainState.DONE)
    play.passes(2)
    play.store.update_chain("run", desired=Desired.STOP)
    play.passes(2)
    assert play.state("run") is ChainState.DONE
    play.chain("new")
    play.passes(1)
    play.store.update_chain("new", desired=Desired.STOP)
    play.passes(1)
    assert play.state("new") is ChainState.STOPPED


@pytest.mark.parametrize("seconds", [1, 200])
def test_dependent_jobs_that_go_on_coming_after_the_proof_change_nothing_of_it(
    play: Play, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """The kind: a chain of `afterany` jobs was adopted, one of them finished the run, and the chain was resubmitted
    because the next ones had nothing left to prove."""
    play.chain("run", batch(200), done={"step": 100}, resubmitter={"by": "script"})
    play.submit("run")
    first = play.live("run")[0].job_id

    def left_behind(place: Place, job: Job, *, now: datetime) -> LeftBehind:
        return LeftBehind(completion=Completion(Proof.YES if job.job_id == first else Proof.NO, configured=True))

    monkeypatch.setattr(play.files, "left_behind", left_behind)
    before = first
    next_one = play.lab.script(batch(seconds), path="/home/ada/next.sh")
    for _ in range(2):
        before = play.lab.submit("--job-name=run", f"--dependency=afterany:{before}", script=next_one)
    play.until(lambda: not play.live("run"))
    play.passes(9)
    assert play.state("run") is ChainState.DONE, play.said
    assert len(play.calls("submit")) == 3, "a chain that is done is never resubmitted"
    with pytest.raises(wishes.Unwanted):
        wishes.retry(play.store, play.record("run"), play.clock.now())


def test_an_alert_says_what_happened_once(play: Play) -> None:
    line = Line("/home/ada/log", 9, "KeyError: 'lr'")
    finding = Finding("user_code/key-error", Cause.USER_CODE, 80, line, 9, retry=Retry.NO)
    play.files.logs = LogEvidence(findings=(finding,))
    play.chain("run", batch(60, 1))
    play.submit("run")
    play.until(lambda: play.state("run") is ChainState.STOPPED)
    [told] = [n for n in play.store.undelivered() if n.severity == "critical"]
    assert "what" not in told.body, "the reason says it"
    assert "program error" in told.body["why"]
    assert told.body["line"] == "KeyError: 'lr'"
    assert told.body["wants"] == "Correct the program, then `chainwatch retry run`."
