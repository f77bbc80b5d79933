"""One poll: one squeue, and what fails takes a capability away."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from chainwatch.model.job import Job, JobState, Node, Source
from chainwatch.simulation import VirtualClock
from chainwatch.slurm.backend import NoInformation
from chainwatch.supervisor.poll import Poller, Wanted
from tests.supervisor.jobs import NOW, queued, recorded

SILENT = NoInformation("timed out")


class Slurm:
    """Answers what it is told to, and remembers what it was asked."""

    name = "alpha"

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {"queue": [queued()], "ids": [], "since": [], "nodes": []}
        self.seconds = 0.0

    def _answer(self, question: str) -> Any:
        self.asked.append(question)
        self.clock.sleep(self.seconds)
        if isinstance(self.answers[question], Exception):
            raise self.answers[question]
        return self.answers[question]

    def queue(self, user: str | None) -> Sequence[Job]:
        assert user == "ada"
        return list(self._answer("queue"))

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        return list(self._answer("ids" if since is None else "since"))

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        return list(self._answer("nodes"))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def slurm(clock: VirtualClock) -> Slurm:
    return Slurm(clock)


@pytest.fixture
def poller(slurm: Slurm, clock: VirtualClock) -> Poller:
    return Poller(slurm, clock, "ada", timedelta(seconds=60), random.Random(1))  # type: ignore[arg-type]


def test_a_quiet_poll_is_one_squeue_and_nothing_else(slurm: Slurm, poller: Poller) -> None:
    seen = poller.poll(lambda jobs: Wanted())
    assert slurm.asked == ["queue"]
    assert seen.jobs == (queued(),)
    assert seen.answered == {Source.QUEUE}
    assert not seen.knows(Source.ACCOUNTING), "not asked is not answered"


def test_what_is_wanted_is_asked_once_each_with_the_queue_in_hand(slurm: Slurm, poller: Poller) -> None:
    given: list[Sequence[Job] | None] = []

    def wanted(jobs: Sequence[Job] | None) -> Wanted:
        given.append(jobs)
        return Wanted(ids=[7], since=NOW, nodes=["n1"])

    slurm.answers |= {"ids": [recorded(JobState.FAILED)], "since": [recorded(JobState.FAILED)], "nodes": []}
    seen = poller.poll(wanted)
    assert slurm.asked == ["queue", "ids", "since", "nodes"]
    assert given == [[queued()]]
    assert seen.records == (recorded(JobState.FAILED),), "the same row from both questions comes once"
    assert seen.answered == {Source.QUEUE, Source.ACCOUNTING, Source.NODES}


def test_a_silent_queue_takes_the_queue_away_and_is_told_as_none(slurm: Slurm, poller: Poller) -> None:
    slurm.answers["queue"] = SILENT
    given: list[object] = []
    seen = poller.poll(lambda jobs: given.append(jobs) or Wanted(nodes=["n1"]))  # type: ignore[func-returns-value]
    assert given == [None]
    assert slurm.asked == ["queue"], "nodes need an end, and there is none without a queue"
    assert seen.failed == {Source.QUEUE: "timed out"}
    assert not seen.knows(Source.QUEUE)
    assert seen.jobs == ()


@pytest.mark.parametrize(("ids", "since"), [("ids", None), (None, "since"), ("ids", "since")])
def test_half_of_accounting_is_no_accounting(slurm: Slurm, poller: Poller, ids: str | None, since: str | None) -> None:
    slurm.answers |= {"ids": [recorded(JobState.FAILED)], "since": []}
    slurm.answers |= {question: SILENT for question in (ids, since) if question}
    seen = poller.poll(lambda jobs: Wanted(ids=[7], since=NOW))
    assert not seen.knows(Source.ACCOUNTING)
    assert seen.knows(Source.QUEUE)


def test_the_pause_doubles_with_each_failure_up_to_ten_minutes_and_is_over_at_once(
    slurm: Slurm, poller: Poller
) -> None:
    slurm.answers["queue"] = SILENT
    pauses = []
    for _ in range(8):
        poller.poll(lambda jobs: Wanted())
        pauses.append(poller.pause().total_seconds())
    wanted = [120, 240, 480, 600, 600, 600, 600, 600]
    assert all(0.9 * w <= p <= 1.1 * w for p, w in zip(pauses, wanted, strict=True)), pauses
    slurm.answers["queue"] = []
    poller.poll(lambda jobs: Wanted())
    assert 54 <= poller.pause().total_seconds() <= 66


def test_a_failing_accounting_does_not_slow_the_queue_down(slurm: Slurm, poller: Poller) -> None:
    slurm.answers["ids"] = SILENT
    poller.poll(lambda jobs: Wanted(ids=[7]))
    assert 54 <= poller.pause().total_seconds() <= 66


def test_a_slow_controller_is_asked_less_often(slurm: Slurm, poller: Poller) -> None:
    slurm.seconds = 10
    for _ in range(2):
        poller.poll(lambda jobs: Wanted())
    assert 180 <= poller.pause().total_seconds() <= 220
    slurm.seconds = 50
    for _ in range(2):
        poller.poll(lambda jobs: Wanted())
    assert 540 <= poller.pause().total_seconds() <= 660, "however slow it is"


def test_one_slow_answer_at_the_end_of_an_outage_leaves_nobody_blind_for_minutes(slurm: Slurm, poller: Poller) -> None:
    """The kind: the answer that a waking controller gives late, taken for how slow it is."""
    slurm.seconds = 10
    slurm.answers["queue"] = SILENT
    poller.poll(lambda jobs: Wanted())
    slurm.answers["queue"] = []
    poller.poll(lambda jobs: Wanted())
    assert 54 <= poller.pause().total_seconds() <= 66
    slurm.seconds = 0
    poller.poll(lambda jobs: Wanted())
    assert 54 <= poller.pause().total_seconds() <= 66


def test_users_do_not_poll_in_step(slurm: Slurm, poller: Poller) -> None:
    poller.poll(lambda jobs: Wanted())
    assert len({poller.pause() for _ in range(10)}) == 10


def test_an_interval_longer_than_the_longest_backoff_is_kept(slurm: Slurm, clock: VirtualClock) -> None:
    poller = Poller(slurm, clock, "ada", timedelta(minutes=30), random.Random(1))  # type: ignore[arg-type]
    slurm.answers["queue"] = SILENT
    poller.poll(lambda jobs: Wanted())
    assert poller.pause() >= timedelta(minutes=27)
