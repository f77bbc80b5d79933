"""A site that keeps no accounting, and a controller that forgets an ended job at once: what is left are files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chainwatch.simulation import Fault, TrainingFault, Trouble
from tests.bugs.play import LONG, Cause, ChainPlan, ChainState, Play

Stage = Callable[..., Play]
FORGETS = {"accounting": False, "min_job_age": 1.0, "purge_period": 1.0}


@pytest.mark.parametrize("step", [1500, 1], ids=["seen running", "never seen"])
def test_a_job_that_nobody_remembers_is_judged_by_what_it_left(play: Stage, step: int) -> None:
    on = play(ChainPlan(faults=(TrainingFault(Trouble.NETWORK, step=step, times=1),)), **FORGETS)
    on.finishes()
    assert on.causes()[0] is Cause.NETWORK_FABRIC
    assert len(on.submitted()) == 2
    for attempt in on.attempts():
        assert attempt.verdict is not None
        assert any("the site keeps no accounting" in sentence for sentence in attempt.verdict.weaker)


def test_a_lost_submission_is_made_again_while_the_controller_would_remember_its_job(play: Stage) -> None:
    on = play(accounting=False, first=False)
    on.backend.faults.add([Fault("submit", 1)])
    on.retry()
    on.until(lambda: on.clients.lines("sbatch"), "sbatch is run and gives no answer")
    on.finishes()
    assert len(on.submitted()) == 1


def test_a_submission_that_nobody_can_tell_about_is_a_persons_and_never_made_twice(play: Stage) -> None:
    on = play(**FORGETS, first=False)
    on.backend.faults.add([Fault("submit", 1)])
    on.retry()
    on.until(lambda: on.clients.lines("sbatch"), "sbatch is run and gives no answer")
    on.go(LONG)
    assert not on.submitted()
    assert on.alerts("doubtful")
    assert on.record().state is ChainState.WAITING
    on.retry()
    on.finishes()
    assert len(on.submitted()) == 1
