"""A tick in which nothing happens costs little, whatever the chains have behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from chainwatch.model.chain import ChainState, Desired
from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from chainwatch.simulation import batch
from tests.supervisor.play import Play


@contextmanager
def counted(play: Play) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if not statement.startswith("BEGIN"):
            statements.append(statement)

    event.listen(play.store.engine, "before_cursor_execute", note)
    yield statements
    event.remove(play.store.engine, "before_cursor_execute", note)


def cost(play: Play) -> int:
    """Statements of one pass, after one that may have learned something."""
    play.passes(2)
    with counted(play) as statements:
        play.passes(1)
    return len(statements)


def with_past(play: Play, name: str, attempts: int) -> None:
    """More attempts of the chain, judged long ago."""
    last = play.store.attempts(name)[-1]
    verdict = last.verdict or Verdict(Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES, 1.0, "preempted")
    for number in range(attempts):
        submitted = last.job.attempt.submitted - timedelta(days=number + 1)
        job = replace(last.job, attempt=replace(last.job.attempt, submitted=submitted))
        play.store.put_attempt(name, replace(last, job=job, number=0, ended=play.clock.now(), verdict=verdict))


def test_a_pass_over_chains_at_rest_asks_the_database_the_same_few_things_however_many_they_are(play: Play) -> None:
    play.chain("one", batch(100))
    play.submit("one")
    play.until(lambda: play.state("one") is ChainState.DONE)
    alone = cost(play)
    assert alone <= 6
    names = [f"run{n}" for n in range(4)]
    for name in names:
        play.chain(name, batch(100))
    play.submit(*names)
    play.until(lambda: all(play.state(n) is ChainState.DONE for n in names))
    for name in names:
        with_past(play, name, 20)
    play.start()
    play.passes(2)
    assert cost(play) == alone


def test_a_pass_over_a_running_chain_costs_the_same_after_fifty_attempts(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    young = cost(play)
    assert young <= 20
    play.store.keep_attempts({})
    with_past(play, "run", 50)
    play.start()
    play.passes(2)
    assert len(play.store.attempts("run")) == 51
    assert cost(play) <= young


@pytest.mark.parametrize("wish", [Desired.PAUSE, Desired.STOP])
def test_a_chain_at_rest_is_looked_at_again_when_a_person_wants_something(play: Play, wish: Desired) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    play.lab.cluster.cancel(play.live("run")[0].job_id)
    play.until(lambda: play.state("run") is ChainState.RESTING)
    play.passes(3)
    play.store.update_chain("run", desired=wish)
    play.passes(1)
    assert play.state("run") is ({Desired.PAUSE: ChainState.PAUSED, Desired.STOP: ChainState.STOPPED}[wish])
    play.store.update_chain("run", desired=Desired.RUN, retried_at=play.clock.now())
    play.passes(2)
    assert len(play.calls("submit")) == 2


def test_a_chain_at_rest_whose_job_comes_back_is_looked_at(play: Play) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    [job] = play.live("run")
    play.store.update_chain("run", desired=Desired.STOP)
    play.lab.cluster.cancel(job.job_id)
    play.until(lambda: play.state("run") is ChainState.STOPPED)
    play.passes(3)
    play.store.update_chain("run", desired=Desired.RUN)
    play.passes(2)
    other = play.lab.submit("--job-name=run", script="/home/ada/run.sh")
    play.passes(3)
    assert [a.job.job_id for a in play.store.attempts("run")] == [job.job_id, other]


def test_a_chain_that_is_forgotten_and_made_anew_has_no_attempts_of_the_old_one(play: Play) -> None:
    play.chain("run", batch(100))
    play.submit("run")
    play.until(lambda: play.state("run") is ChainState.DONE)
    play.store.forget_chain("run")
    play.passes(2)
    assert play.store.attempts("run") == ()
    assert play.state("run") is ChainState.NEW


@pytest.mark.parametrize("state", [ChainState.NEW, ChainState.RESTING, ChainState.STOPPED, ChainState.PAUSED])
def test_a_wish_that_is_made_while_slurm_is_silent_is_no_rest(play: Play, state: ChainState) -> None:
    play.chain("one", batch(100, code=1))
    if state is ChainState.NEW:
        play.passes(2)
    else:
        play.submit("one")
        play.until(lambda: play.state("one") in {ChainState.RESTING, ChainState.STOPPED})
        desired = Desired.PAUSE if state is ChainState.PAUSED else Desired.RUN
        play.store.update_chain("one", state=state, state_since=play.clock.now(), desired=desired)
    submitted = len(play.calls("submit"))
    play.passes(3)
    play.lab.cluster.stop_controller()
    wish = {} if state is ChainState.PAUSED else {"retried_at": play.clock.now()}
    play.store.update_chain("one", desired=Desired.RUN, **wish)
    play.passes(3)
    play.lab.cluster.start_controller()
    play.until(lambda: len(play.calls("submit")) > submitted or play.state("one") is not state, passes=30)


def test_an_end_that_nobody_judged_yet_is_no_rest(play: Play) -> None:
    play.chain("one", batch(100))
    play.submit("one")
    play.until(lambda: play.state("one") is ChainState.DONE)
    last = play.store.attempts("one")[-1]
    play.passes(15)  # until the controller has forgotten the job
    play.store.put_attempt("one", replace(last, verdict=None))
    play.until(lambda: play.store.attempts("one")[-1].verdict is not None, passes=10)
