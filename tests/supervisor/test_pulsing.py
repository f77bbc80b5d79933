"""What the loop publishes is what its pollers saw."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.slurm import NoInformation
from chainwatch.store import Store, open_store
from chainwatch.supervisor.poll import Poller, Wanted
from chainwatch.supervisor.pulsing import Pulsing
from tests.alerts.conftest import FakeClock
from tests.web.conftest import NOW


class Cluster:
    name = "c1"
    answers = True

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def queue(self, user: str | None) -> list[Any]:
        self.clock.forward(seconds=2)
        if not self.answers:
            raise NoInformation("squeue gave no answer within 60 s")
        return []

    def accounting(self, ids: Any = (), **_: Any) -> list[Any]:
        self.clock.forward(seconds=1)
        return []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "state")
    yield store
    store.close()


def test_a_pulse_tells_age_duration_and_error_of_each_source(store: Store) -> None:
    clock = FakeClock(NOW)
    cluster = Cluster(clock)
    poller = Poller(cluster, clock, "me", timedelta(minutes=1), random.Random(1))  # type: ignore[arg-type]
    pulsing = Pulsing({"c1": poller}, NOW, timedelta(minutes=1))
    assert "not answered yet" in pulsing.take(NOW + timedelta(minutes=11)).blind(NOW + timedelta(minutes=11))
    poller.poll(lambda jobs: Wanted(ids=(1,)))
    pulse = pulsing.take(clock.now())
    assert {(p.source, p.seconds, p.error) for p in pulse.polls} == {("squeue", 2.0, ""), ("sacct", 1.0, "")}
    assert pulse.blind(clock.now()) == ""
    cluster.answers = False
    clock.forward(minutes=15)
    poller.poll(lambda jobs: Wanted())
    assert "within 60 s" in pulsing.take(clock.now()).blind(clock.now())


def test_each_question_is_counted_once_over_many_passes(store: Store) -> None:
    clock = FakeClock(NOW)
    cluster = Cluster(clock)
    poller = Poller(cluster, clock, "me", timedelta(minutes=1), random.Random(1))  # type: ignore[arg-type]
    pulsing = Pulsing({"c1": poller}, NOW, timedelta(minutes=1))
    for answers in (True, False, True):
        cluster.answers = answers
        poller.poll(lambda jobs: Wanted())
        pulsing.count(store)
    pulsing.count(store)
    found = {name: value for name, _, value in store.counters()}
    assert found == {"polls": 3, "poll_errors": 1, "poll_seconds": 6}
