"""The order of the tests loses none, and tests that wait begin beside tests that compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.order import side_by_side


class Item:
    def __init__(self, file: str, slow: float | None = None, slurm: bool = False) -> None:
        self.nodeid = f"{file}::test"
        self.slow, self.slurm = slow, slurm

    def get_closest_marker(self, mark: str) -> SimpleNamespace | None:
        if mark == "slow" and self.slow is not None:
            return SimpleNamespace(args=(self.slow,))
        return SimpleNamespace(args=()) if mark == "slurm" and self.slurm else None


def suite(real: int, computing: int) -> list[pytest.Item]:
    made = [Item("quick") for _ in range(computing)]
    made += [Item(f"real{number // 10}", slurm=True) for number in range(real)]
    made += [Item("night", 200, slurm=True), Item("wheel", 40), Item("never", 15)]
    return cast("list[pytest.Item]", made)


@pytest.mark.parametrize("workers", range(1, 8))
@pytest.mark.parametrize(("real", "computing"), [(0, 0), (1, 0), (0, 5), (30, 2), (12, 500), (7, 12)])
def test_no_test_is_lost_or_doubled(real: int, computing: int, workers: int) -> None:
    items = suite(real, computing)
    ordered = side_by_side(items, workers)
    assert len(ordered) == len(items)
    assert set(map(id, ordered)) == set(map(id, items))


def test_three_of_five_workers_begin_with_the_real_slurm_and_two_with_what_computes() -> None:
    ordered = cast("list[Item]", side_by_side(suite(47, 450), 5))
    runs = [ordered[at : at + 100] for at in range(0, 500, 100)]
    assert [run[0].slurm for run in runs] == [True, True, True, False, False]
    assert [run[0].nodeid for run in runs[::3]] == ["night::test", "wheel::test"], "the longest first"
    files = [{item.nodeid for item in run if item.slurm} for run in runs]
    assert sum(map(len, files)) == 6, "no file is torn"
    assert [sum(item.slurm for item in run) for run in runs] == [1, 27, 20, 0, 0], "the lengths are about the same"
