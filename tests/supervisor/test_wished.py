"""What people ask for and take back again, and chains that they forget while a job lives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chainwatch.actions import wishes
from chainwatch.model.chain import ChainState
from chainwatch.store.records import Origin
from tests.supervisor.play import Play


def preempted(play: Play, name: str) -> None:
    play.lab.cluster.preempt(play.live(name)[0].job_id)


@pytest.mark.parametrize("wish", [wishes.stop, wishes.done])
def test_a_wish_that_is_taken_back_leaves_no_chain_where_it_put_it(play: Play, wish: object) -> None:
    """The kind: a state that mirrors a wish, and outlives it. `resume` said that the chain was looked after again, and it
    never was."""
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    wish(play.store, "run", play.clock.now(), why="disk full")  # type: ignore[operator]
    preempted(play, "run")
    play.until(lambda: "disk full" in play.record("run").sentence, passes=10)
    play.passes(3)
    assert len(play.calls("submit")) == 1
    wishes.resume(play.store, "run", play.clock.now())
    play.until(lambda: len(play.calls("submit")) == 2, passes=10)
    play.until(lambda: play.state("run") is ChainState.RUNNING)


def test_what_stopped_by_itself_is_not_begun_again_by_a_wish_that_is_taken_back(play: Play) -> None:
    play.chain("run", recovery=False)
    play.submit("run")
    preempted(play, "run")
    play.until(lambda: play.state("run") is ChainState.RESTING, passes=10)
    why = play.record("run").sentence
    for wish in (wishes.stop, wishes.resume):
        wish(play.store, "run", play.clock.now())
        play.passes(2)
    assert (play.state("run"), play.record("run").sentence) == (ChainState.RESTING, why)
    assert len(play.calls("submit")) == 1


def test_a_chain_that_rests_before_its_first_job_stays_so(play: Play) -> None:
    """The kind: a person is told that a chain needs them, and `status` says that it is merely registered."""
    play.chain("old", caps={"until": "2020-01-01"})
    play.submit("old")
    assert play.state("old") is ChainState.RESTING
    play.store.update_chain("old", retried_at=None)  # as after `submit`, which decides by itself
    play.passes(2)
    assert play.state("old") is ChainState.RESTING
    assert [n.key for n in play.store.active_notices("old")]


def test_a_chain_that_was_forgotten_while_its_job_lives_takes_that_job_up_when_it_is_registered_anew(
    play: Play,
) -> None:
    """The kind: two jobs of one run, since nobody knew of the first any more."""
    play.chain("run", sbatch=["--job-name=shared"])
    play.passes()
    play.store.update_chain("run", retried_at=play.clock.now())
    play.passes(3)
    [job] = play.backend.queue("ada")
    play.store.forget_chain("run")
    play.passes(2)
    [attempt] = play.store.attempts("run")
    assert attempt.job.job_id == job.job_id
    play.store.update_chain("run", retried_at=play.clock.now())
    play.passes(3)
    assert [j.job_id for j in play.backend.queue("ada")] == [job.job_id]


def test_a_chain_of_commands_takes_no_job_of_a_namesake(play: Play) -> None:
    """`chainwatch sbatch` names chains by their jobs, and the next one of that name is another run."""
    play.chain("run")
    play.submit("run")
    known = play.record("run")
    play.store.forget_chain("run")
    del play.chains["run"]
    play.reload()
    now = play.clock.now()
    play.store.add_chain(
        replace(known, created=now, origin=Origin.SBATCH, retried_at=None, facts={}, state=ChainState.NEW)
    )
    play.passes(2)
    assert not play.store.attempts("run")
