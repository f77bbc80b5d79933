"""The track of a chain: a plot's worth of points however long the run, and its saves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from chainwatch.model.checkpoint import Status
from chainwatch.store import Store
from chainwatch.store.records import Point, Save
from chainwatch.store.track import MOST
from tests.store.build import MINUTE, NOW, record


def test_a_long_run_keeps_a_bounded_number_of_points_spread_evenly(store: Store) -> None:
    store.add_chain(record())
    with store.transaction():
        for minute in range(1300):
            store.add_point("llama", Point(NOW + minute * MINUTE, minute, 1.0))
    points = store.points("llama")
    assert MOST / 2 <= len(points) <= 2 * MOST + 1
    gaps = [later.at - earlier.at for earlier, later in pairwise(points)]
    assert max(gaps) <= 1300 * MINUTE / MOST * 2
    assert points[0].step == 0
    assert points[-1].step > 1290


def test_the_first_minutes_are_kept_to_the_poll_and_the_same_moment_once(store: Store) -> None:
    store.add_chain(record())
    assert store.add_point("llama", Point(NOW, 1))
    assert not store.add_point("llama", Point(NOW - MINUTE, 1)), "a clock that went back is no new point"
    assert store.add_point("llama", Point(NOW + MINUTE, 5, 2.5))
    assert store.points("llama") == [Point(NOW, 1), Point(NOW + MINUTE, 5, 2.5)]


def test_a_save_is_remembered_once_and_a_path_that_is_written_again_is_another_one(store: Store) -> None:
    store.add_chain(record())
    save = Save("/ckpt/a\udcff", NOW, 10, Status.INCOMPLETE)
    assert store.put_saves("llama", [save]) == 1
    assert store.put_saves("llama", [save]) == 0
    assert store.put_saves("llama", [replace(save, status=Status.INTACT)]) == 1
    again = replace(save, at=NOW + timedelta(hours=1), step=20, status=Status.INTACT)
    assert store.put_saves("llama", [replace(save, status=Status.INTACT), again]) == 1
    assert store.saves("llama") == [replace(save, status=Status.INTACT), again]
    assert store.saves("llama", last=1) == [again]
    assert store.put_saves("llama", []) == 0
