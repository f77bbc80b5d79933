"""Chains with a standby, against the simulated cluster: the place in the queue is kept, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from chainwatch.model.chain import ChainState
from chainwatch.simulation import Fault, FaultKind, TrainingFault, Trouble
from chainwatch.simulation.truth import bad_starts
from tests.simulation.test_never import MID_SAVE, play, states, template
from tests.simulation.world.mortal import POINTS
from tests.simulation.world.plan import ChainPlan, Event, Happening, Plan
from tests.simulation.world.world import World

__all__ = ["template"]
STANDBY = ChainPlan(standby=True, final_step=6000, time_limit=60, no_requeue=True)


def gaps(world: World) -> list[float]:
    """Seconds between the end of a run and the start of the next."""
    runs = world.runs("run0")
    return [later.started - earlier.released for earlier, later in pairwise(runs) if earlier.released]


def alone_and_done(world: World) -> None:
    assert states(world) == [ChainState.DONE]
    assert world.live("run0") == []
    assert bad_starts(world.tales["run0"].training) == []


def test_the_next_job_starts_at_once_when_the_time_limit_ends_one(template: Path) -> None:
    def and_so_it_was(world: World) -> None:
        alone_and_done(world)
        assert len(world.runs("run0")) >= 4
        assert max(gaps(world)) < 30, "no poll lies between the end of a job and the start of the next"

    play(Plan(chains=(STANDBY,)), template, and_so_it_was)


def test_the_standby_of_a_chain_that_is_done_is_cancelled(template: Path) -> None:
    def and_so_it_was(world: World) -> None:
        alone_and_done(world)
        assert len(world.runs("run0")) == 1
        assert [c.outcome for c in world.backend.calls if c.method == "cancel"] == ["ok"]

    held = (Event(1000, Happening.HELD, 0, 9000.0),)  # whatever else keeps it in the queue
    play(Plan(chains=(ChainPlan(standby=True, no_requeue=True),), events=held), template, and_so_it_was)


def test_a_standby_that_began_after_the_chain_was_done_is_ended_and_tells_nothing(template: Path) -> None:
    def and_so_it_was(world: World) -> None:
        alone_and_done(world)
        assert len(world.runs("run0")) == 2, "it began before anybody had looked"
        assert (world.runs("run0")[1].released or 1e12) - world.runs("run0")[1].started < 120

    play(Plan(chains=(ChainPlan(standby=True, no_requeue=True),)), template, and_so_it_was)


def test_a_pause_takes_the_standby_away_and_the_end_of_it_brings_one_back(template: Path) -> None:
    def and_so_it_was(world: World) -> None:
        alone_and_done(world)
        cancelled = [c for c in world.backend.calls if c.method == "cancel"]
        assert cancelled
        assert max(gaps(world)) < 30

    play(Plan(chains=(STANDBY,), events=(Event(600, Happening.PAUSE, 0, 900.0),)), template, and_so_it_was)


def test_a_standby_that_a_person_cancelled_is_not_queued_again_behind_the_same_job(template: Path) -> None:
    def and_so_it_was(world: World) -> None:
        alone_and_done(world)
        first = world.runs("run0")[0].job_id
        behind = [r for _, _, r in world.cluster.controller.accepted if f"afterany:{first}" in r.dependency]
        assert len(behind) == 2, "the one that was cancelled, and the next job after the end"

    play(Plan(chains=(STANDBY,), events=(Event(600, Happening.CANCELLED, 0, flag=True),)), template, and_so_it_was)


def test_a_fault_that_no_retry_mends_costs_at_most_one_job_more(template: Path) -> None:
    fault = TrainingFault(trouble=Trouble.CRASH, step=500, times=None)

    def and_so_it_was(world: World) -> None:
        assert states(world) in ([ChainState.STOPPED], [ChainState.RESTING])

    plan = Plan(chains=(ChainPlan(standby=True, no_requeue=True, faults=(fault,)),), hours=2.0)
    play(plan, template, and_so_it_was)


@pytest.mark.parametrize("kind", FaultKind)
def test_a_standby_without_an_answer_is_queued_once(template: Path, kind: FaultKind) -> None:
    plan = Plan(chains=(STANDBY,), faults=(Fault("submit", 2, kind, late=60.0),))
    play(plan, template, alone_and_done)


@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith(("submit", "cancel"))])
def test_death_at_any_named_point_doubles_no_standby(template: Path, point: str) -> None:
    events = (Event(600, Happening.PAUSE, 0, 300.0), Event(MID_SAVE, Happening.PREEMPT))
    play(Plan(chains=(STANDBY,), events=events, deaths=(point, point, point)), template, alone_and_done)
