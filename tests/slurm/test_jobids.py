"""Ids of jobs, array tasks and het components, as Slurm prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.slurm.jobids import ShownId, compress_tasks, expand_tasks, one_by_one, parse_job_id, side_by_side


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("123", ShownId(123)),
        ("123_4", ShownId(123, task="4")),
        ("123_4.0", ShownId(123, task="4", step="0")),
        ("123.batch", ShownId(123, step="batch")),
        ("715219_23.b+", ShownId(715219, task="23", step="b+")),
        ("123+1", ShownId(123, component=1)),
        ("123+0.batch", ShownId(123, component=0, step="batch")),
        ("2653343_[3-4%2]", ShownId(2653343, task="[3-4%2]", limit=2)),
        ("56502501_[1%1]", ShownId(56502501, task="[1%1]", limit=1)),
        ("1_[1-9:2]", ShownId(1, task="[1-9:2]")),
    ],
)
def test_every_notation_of_an_id_is_taken_apart(text: str, parsed: ShownId) -> None:
    assert parse_job_id(text) == parsed


@pytest.mark.parametrize("text", ["", "JOBID", "abc_1", "x123", "_4", "12_", "-1", "²", "٣", str(2**32), "9" * 5000])
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse_job_id(text) is None


@pytest.mark.parametrize("text", ["123_[1-10,12,...]", "80520_31-33,71-74,91,115-11...", "123_[1-10,12"])
def test_a_list_of_tasks_that_slurm_cut_is_known_to_be_cut(text: str) -> None:
    parsed = parse_job_id(text)
    assert parsed is not None
    assert parsed.task is not None
    assert parsed.cut is ("..." in text)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("4", (4,)),
        ("[3-5%2]", (3, 4, 5)),
        ("[1-9:4]", (1, 5, 9)),
        ("[60-62,91,96-97]", (60, 61, 62, 91, 96, 97)),
        ("[1-3,12,...]", (1, 2, 3, 12)),
    ],
)
def test_a_pending_rest_counts_as_many_tasks_as_it_lists(text: str, tasks: tuple[int, ...]) -> None:
    assert expand_tasks(text) == tasks


@pytest.mark.parametrize(
    ("array", "many"),
    [
        ("0-7", 8),
        ("0-7%1", 1),
        ("0-7%01", 1),
        ("0-7%4", 4),
        ("0-1%9", 2),
        ("5", 1),
        ("[3-5%1]", 1),
        ("1,3", 2),
        ("", 0),
    ],
)
def test_an_array_tells_how_many_of_its_tasks_run_side_by_side(array: str, many: int) -> None:
    assert side_by_side(array) == many
    assert one_by_one(array) == (many < 2)


@given(st.sets(st.integers(0, 3000), min_size=1, max_size=60))
def test_compressed_tasks_expand_to_the_same(tasks: set[int]) -> None:
    assert set(expand_tasks(compress_tasks(tasks))) == tasks
    assert set(expand_tasks(compress_tasks(tasks, limit=3))) == tasks


@pytest.mark.parametrize("text", ["1_{}", "1+{}", "1_[{}]", "1_[1-{}]", "1_[1-9:{}]", "1_[1-9%{}]"])
def test_a_number_of_thousands_of_digits_is_none_of_slurm_s_wherever_it_stands(text: str) -> None:
    found = parse_job_id(text.format("9" * 5000))
    assert found is None or (found.limit is None and set(found.tasks()) <= set(range(1, 10)))
