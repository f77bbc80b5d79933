"""No fault of the list is without a test that plays it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.bugs.catalogue import BUGS, PLAYED


def test_every_bug_of_the_list_is_played_and_none_that_is_not_on_it() -> None:
    for module in Path(__file__).parent.glob("test_*.py"):
        import_module(f"tests.bugs.{module.stem}")
    assert sorted(PLAYED) == sorted(BUGS)
