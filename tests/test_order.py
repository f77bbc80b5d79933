"""The order of the tests loses none, and tests that wait begin beside tests that compute."""

from __future__ import annotations

from typing import cast

import pytest

from tests.order import side_by_side


class Item:
    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self.marks else None


def suite(real: int, computing: int) -> list[pytest.Item]:
    made = (
        [Item() for _ in range(computing)]
        + [Item("slurm") for _ in range(real)]
        + [Item("slow"), Item("slow", "slurm")]
    )
    return cast("list[pytest.Item]", made)


@pytest.mark.parametrize("workers", range(1, 8))
@pytest.mark.parametrize(("real", "computing"), [(0, 0), (1, 0), (0, 5), (30, 2), (12, 500), (7, 12)])
def test_no_test_is_lost_or_doubled(real: int, computing: int, workers: int) -> None:
    items = suite(real, computing)
    ordered = side_by_side(items, workers)
    assert len(ordered) == len(items)
    assert set(map(id, ordered)) == set(map(id, items))


def test_three_of_five_workers_begin_with_the_real_slurm_and_two_with_what_computes() -> None:
    ordered = side_by_side(suite(29, 469), 5)
    begins = [ordered[at : at + 10] for at in range(0, 500, 100)]
    assert [{bool(i.get_closest_marker("slurm")) for i in run} for run in begins] == [{True}] * 3 + [{False}] * 2
    assert begins[0][0].get_closest_marker("slow"), "the longest first"
    assert begins[3][0].get_closest_marker("slow"), "the longest first"
