"""The eight things that must never happen, on random histories, with the daemon killed between any two effects."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

from chainwatch.config.models import HandOver
from chainwatch.model.chain import ChainState
from chainwatch.simulation import Fault, FaultKind, OnTerm
from chainwatch.simulation.truth import bad_starts
from tests.simulation.world.histories import plans
from tests.simulation.world.invariants import Never, Watch
from tests.simulation.world.mortal import POINTS
from tests.simulation.world.plan import ChainPlan, Event, Happening, Plan
from tests.simulation.world.world import World, make_template, played

HISTORIES = int(os.environ.get("CHAINWATCH_HISTORIES", "32"))
"""How many random histories are played, in all: the same ones each time, or as many new ones as the variable says."""
PARTS = 4
MID_SAVE = 2030.0
"""Seconds after the beginning: the third save of a first job is half done."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


def play(plan: Plan, template: Path, then: object = None) -> None:
    with played(plan, template) as world:
        watch = Watch()
        world.play(watch)
        watch.at_the_end(world)
        if callable(then):
            then(world)


def states(world: World) -> list[ChainState]:
    return [record.state for record in world.store.chains()]


@pytest.mark.slow(15)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_what_must_never_happen_does_not_happen_on_random_histories(template: Path, part: int) -> None:
    @seed(random.getrandbits(64) if "CHAINWATCH_HISTORIES" in os.environ else part)
    @settings(
        max_examples=HISTORIES // PARTS,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans)
    def histories(plan: Plan) -> None:
        play(plan, template)

    histories()


def test_the_night_is_survived(template: Path) -> None:
    """Preempted while it saves; then a dead node whose processes write on; then slurmctld is away for an hour."""
    night = Plan(
        events=(
            Event(MID_SAVE, Happening.PREEMPT),
            Event(6000, Happening.NODE_DIES, 0, 1800),
            Event(9000, Happening.CONTROLLER_DOWN, 0, 3600),
        ),
        chains=(ChainPlan(final_step=9000),),
    )

    def and_it_was_a_night(world: World) -> None:
        assert states(world) == [ChainState.DONE]
        assert len(world.runs("run0")) >= 3
        assert bad_starts(world.tales["run0"].training) == []
        assert world.tales["run0"].disk.moves, "the damaged checkpoint was moved aside"

    play(night, template, and_it_was_a_night)


@pytest.mark.parametrize("point", POINTS)
def test_death_at_any_named_point_costs_and_doubles_nothing(template: Path, point: str) -> None:
    hand_over = HandOver.POINTER if point.startswith("pointer") else HandOver.SET_ASIDE
    events = (Event(MID_SAVE, Happening.PREEMPT), Event(4000, Happening.PREEMPT))
    plan = Plan(chains=(ChainPlan(hand_over=hand_over, final_step=6000),), events=events, deaths=(point, point))
    play(plan, template, lambda world: _finished(world, deaths=not point.startswith(("cancel", "pointer"))))


@pytest.mark.parametrize("gap", range(1, 40, 3))
def test_death_after_any_number_of_effects_costs_and_doubles_nothing(template: Path, gap: int) -> None:
    plan = Plan(events=(Event(MID_SAVE, Happening.PREEMPT),), deaths=(gap,) * 4)
    play(plan, template, lambda world: _finished(world, deaths=True))


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_submission_without_an_answer_is_made_once(template: Path, kind: FaultKind, nth: int) -> None:
    plan = Plan(events=(Event(MID_SAVE, Happening.PREEMPT),), faults=(Fault("submit", nth, kind, late=60.0),))
    play(plan, template, _finished)


def test_a_retry_said_while_the_job_still_runs_does_not_hide_that_it_is_done(template: Path) -> None:
    plan = Plan(events=(Event(1000, Happening.RETRY),))
    play(plan, template, _finished)


def test_a_duplicate_of_our_own_that_was_cancelled_does_not_hide_that_the_chain_is_done(template: Path) -> None:
    """The site's script resubmits just before a late submission of ours arrives, which then waits in vain."""
    site = ChainPlan(on_term=OnTerm.IGNORE, site_delay=350.0, site_minds_cancelled=False)
    late = Fault("submit", 2, FaultKind.LATE, late=60.0)

    def and_it_was_so(world: World) -> None:
        assert [attempt.ours for attempt in world.store.attempts("run0")] == [True, False, True]
        _finished(world)

    play(
        Plan(chains=(site,), events=(Event(1000, Happening.OCCUPY, 3, 3600.0),), faults=(late,)),
        template,
        and_it_was_so,
    )


def test_the_invariants_see_a_daemon_that_submits_twice(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainwatch.actions import submit

    monkeypatch.setattr(submit, "look_up", lambda *_: submit.SurelyAbsent())
    plan = Plan(faults=(Fault("submit", 1, FaultKind.LATE, late=70.0),))
    with pytest.raises(Never, match=r"made 2 times|was submitted while"):
        play(plan, template)


def test_the_invariants_see_a_daemon_that_tells_nobody(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainwatch.supervisor.traces import Traces

    monkeypatch.setattr(Traces, "owe", lambda self, *args, **kwargs: None)
    with pytest.raises(Never, match="nobody was told"):
        play(Plan(events=(Event(1000, Happening.CANCELLED),)), template)


def test_the_invariants_see_a_job_that_loads_a_damaged_checkpoint(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainwatch.supervisor.setting_right import SettingRight

    monkeypatch.setattr(SettingRight, "set_right", lambda self, *args, **kwargs: None)
    with pytest.raises(Never, match="3: job"):
        play(Plan(events=(Event(MID_SAVE, Happening.PREEMPT),)), template)


def test_the_invariants_see_silence_that_is_taken_for_an_answer(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainwatch.supervisor import ends

    def gone(known: ends.Job, snapshot: ends.Snapshot) -> ends.Ended:
        return ends.Ended(known, complete=True)

    monkeypatch.setattr(ends, "judge", gone)
    monkeypatch.setattr("chainwatch.model.job.Snapshot.knows", lambda self, source: True)
    with pytest.raises(Never, match="6: "):
        play(Plan(events=(Event(1000, Happening.CONTROLLER_DOWN, 0, 900.0),)), template)


def _finished(world: World, *, deaths: bool = False) -> None:
    assert states(world) == [ChainState.DONE]
    assert bool(world.reaper.deaths) >= deaths
