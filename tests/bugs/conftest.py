"""A stage for each situation, given back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bugs.play import Play
from tests.simulation.world.world import make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def play(template: Path) -> Iterator[Callable[..., Play]]:
    """Makes plays: `play(ChainPlan(…), …, min_job_age=…)`."""
    made: list[Play] = []

    def make(*args: object, **settings: object) -> Play:
        made.append(Play(template, *args, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()
