"""A store on SQLite, and on PostgreSQL where the machine has it: the same tests run on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainwatch.store import Store, open_store
from tests.store.postgres import Server, missing


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    why = missing()
    if why:
        pytest.skip(f"PostgreSQL IS NOT TESTED: {why}")
    with Server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    """The URL to open a store with: None for SQLite in the state directory."""
    if request.param == "sqlite":
        return None
    server: Server = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def store(database: str | None, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "state", database)
    yield opened
    opened.close()
