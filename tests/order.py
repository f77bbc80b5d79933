"""The order of the tests, in which two cores are busy from the first minute to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest

COMPUTING = 2
"""Workers that begin with tests that compute: as many as keep two cores busy while the others wait for daemons."""


def side_by_side(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order for xdist's `worksteal`, which deals each worker an equal run of them and lets idle ones steal.

    A test on the real Slurm mostly waits, so all but two workers begin with those. Longest first (the mark `slow`), so
    that none is waited for in the end.
    """
    shares = list(_shares(len(items), workers))
    real = _marked(items, "slurm")
    waiting = [*_marked(real, "slow"), *_unmarked(real, "slow")]
    computing = _unmarked(items, "slurm")
    slow, quick = _marked(computing, "slow"), iter(_unmarked(computing, "slow"))
    first = max(1, workers - COMPUTING)
    heads = [waiting[worker::first] for worker in range(first)]
    heads += [slow[worker :: workers - first] for worker in range(workers - first)]
    if workers == 1 or any(len(head) > share for head, share in zip(heads, shares, strict=True)):
        return [*waiting, *slow, *quick]
    return [
        item for head, share in zip(heads, shares, strict=True) for item in (*head, *islice(quick, share - len(head)))
    ]


def _shares(number: int, workers: int) -> Iterator[int]:
    """How many tests xdist deals each worker at first."""
    for left in range(workers, 0, -1):
        yield number // left
        number -= number // left


def _marked(items: Sequence[pytest.Item], mark: str) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker(mark)]


def _unmarked(items: Sequence[pytest.Item], mark: str) -> list[pytest.Item]:
    return [item for item in items if not item.get_closest_marker(mark)]
