"""The eight things that must never happen, on random histories, with the daemon killed between any two effects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.simulation.world.histories import plans
from tests.simulation.world.invariants import Watch
from tests.simulation.world.plan import Plan
from tests.simulation.world.world import make_template, played


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


def play(plan: Plan, template: Path) -> None:
    with played(plan, template) as world:
        watch = Watch()
        world.play(watch)
        watch.at_the_end(world)


@pytest.mark.timeout(600)
@given(plan=plans)
@settings(
    max_examples=int(os.environ.get("CHAINWATCH_HISTORIES", "50")),
    derandomize="CHAINWATCH_HISTORIES" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
def test_never_on_random_histories(template: Path, plan: Plan) -> None:
    play(plan, template)
