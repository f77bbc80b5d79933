"""A chain without a live job: what people want of it, and what it is."""

from __future__ import annotations

from chainwatch.model.chain import ChainState, Desired
from chainwatch.simulation import batch
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
