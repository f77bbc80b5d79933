"""The order of the tests, in which two cores are busy from the first minute to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import pytest

COMPUTING = 2
"""Workers that begin with tests that compute: as many as keep two cores busy while the others wait for daemons."""


def side_by_side(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order for xdist's `worksteal`, which deals each worker an equal run of them and lets idle ones steal.

    A test on the real Slurm mostly waits, so all but two workers begin with those: the longest files first and each
    whole, since its tests share what was played once. The others begin with what computes longest.
    """
    real = [item for item in items if item.get_closest_marker("slurm")]
    computing = [item for item in items if not item.get_closest_marker("slurm")]
    slow = sorted((item for item in computing if item.get_closest_marker("slow")), key=seconds, reverse=True)
    quick = iter([item for item in computing if not item.get_closest_marker("slow")])
    shares = list(_shares(len(items), workers))
    first = max(1, workers - COMPUTING)
    heads = _dealt(real, first) + [slow[worker :: workers - first] for worker in range(workers - first)]
    if workers == 1 or any(len(head) > share for head, share in zip(heads, shares, strict=True)):
        return [*real, *slow, *quick]
    return [
        item for head, share in zip(heads, shares, strict=True) for item in (*head, *islice(quick, share - len(head)))
    ]


def seconds(item: pytest.Item) -> float:
    """About how long a test takes: what its mark `slow` says, or what is usual."""
    mark = item.get_closest_marker("slow")
    return float(mark.args[0]) if mark and mark.args else 10 if mark else 3


def _dealt(items: Sequence[pytest.Item], hands: int) -> list[list[pytest.Item]]:
    """The tests in as many runs of about the same length, no file torn, long files first."""
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.nodeid.partition("::")[0])]
    dealt: list[list[pytest.Item]] = [[] for _ in range(hands)]
    for tests in sorted(files, key=lambda tests: sum(map(seconds, tests)), reverse=True):
        min(dealt, key=lambda hand: sum(map(seconds, hand))).extend(tests)
    return dealt


def _shares(number: int, workers: int) -> Iterator[int]:
    """How many tests xdist deals each worker at first."""
    for left in range(workers, 0, -1):
        yield number // left
        number -= number // left
