"""What the tests of the loop share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.world.world import make_template
from tests.supervisor.play import Play


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def play(tmp_path: Path, empty_database: Path) -> Iterator[Play]:
    made = Play(tmp_path, empty_database)
    yield made
    made.store.close()
