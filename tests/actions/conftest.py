"""A store in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainwatch.store import Store, open_store
from tests.store.build import record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that knows the chain `llama`."""
    opened = open_store(tmp_path / "state")
    opened.add_chain(record())
    yield opened
    opened.close()
