"""How many jobs may be submitted in an hour: a bound for a daemon that runs wild, not for people and not for fleets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chainwatch.config.site import Site
from chainwatch.model.chain import ChainState
from chainwatch.store.records import IntentKind, IntentStatus
from tests.supervisor.play import Play


def typed(play: Play, many: int) -> None:
    """A person submitted so many runs in a loop: chains with an intent of a command, which has no lease."""
    known = play.record("run")
    for i in range(many):
        play.store.add_chain(replace(known, name=f"sweep-{i}", state=ChainState.STOPPED))
        intent = play.store.begin_intent(None, f"sweep-{i}", IntentKind.SUBMIT, f"typed-{i}", {}, play.clock.now())
        intent = play.store.mark_tried(None, intent, play.clock.now())
        play.store.close_intent(None, intent, IntentStatus.REFUSED, play.clock.now())


def test_two_hundred_runs_that_a_person_submits_in_a_loop_are_no_daemon_that_runs_wild(play: Play) -> None:
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    typed(play, 200)
    by_hand = replace(play.house, lease=None)
    assert by_hand.submissions_per_hour is None, "people's own first jobs are not counted"
    play.lab.cluster.preempt(play.live("run")[0].job_id)
    play.until(lambda: len(play.calls("submit")) == 2, passes=10)


def test_a_fleet_whose_jobs_all_ended_in_one_hour_comes_back_in_that_hour(play: Play) -> None:
    play.chain("run")
    play.passes()
    assert play.house.submissions_per_hour == 60
    typed(play, 99)
    assert play.house.submissions_per_hour == 200
    play.house.config = play.house.config.model_copy(update={"submissions_per_hour": 3})
    assert play.house.submissions_per_hour == 3


@pytest.mark.parametrize("most", [0, 20])
def test_a_sites_bound_holds_for_the_daemon_and_for_people_together(play: Play, most: int) -> None:
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    typed(play, 20)
    play.house.site = Site(submissions_per_hour=most)
    play.house.config = play.house.config.model_copy(update={"submissions_per_hour": most})
    assert replace(play.house, lease=None).submissions_per_hour == most
    play.lab.cluster.preempt(play.live("run")[0].job_id)
    play.until(lambda: play.state("run") is ChainState.WAITING, passes=10)
    assert "submissions_per_hour" in play.record("run").sentence
    assert len(play.calls("submit")) == 1
