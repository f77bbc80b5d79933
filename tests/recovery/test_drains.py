"""A chain whose processes do not die has node after node drained."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.model.chain import Attempt, Resubmit, Stop
from chainwatch.model.job import Node
from chainwatch.model.verdict import Cause
from chainwatch.recovery import decide
from chainwatch.recovery.drains import left_drained
from tests.recovery.build import NOW, ended, situation

REASON = "Kill task failed"


def draining(*nodes: str, ago: float = 0, saved: int | None = None) -> Attempt:
    return replace(ended(Cause.PREEMPTION, ago=ago, saved=saved), drained=nodes)


def test_one_job_that_left_nodes_drained_is_chance() -> None:
    assert isinstance(decide(situation(draining("n1", "n2"))), Resubmit)


def test_the_second_one_stops_the_chain_though_both_saved_progress() -> None:
    decision = decide(situation(draining("n1", "n2", ago=100, saved=10), draining("n3", saved=20)))
    assert isinstance(decision, Stop)
    assert "n1, n2, n3: Kill task failed" in decision.why


def test_what_lies_days_back_does_not_count() -> None:
    assert isinstance(decide(situation(draining("n1", ago=4 * 24 * 60), draining("n2"))), Resubmit)


def test_after_a_retry_it_is_counted_anew() -> None:
    asked = situation(draining("n1", ago=200), draining("n2", ago=100), draining("n3"))
    retried = replace(asked.history, retried_at=NOW - timedelta(minutes=80))
    last = replace(retried.attempts[-1], ended=NOW)
    history = replace(retried, attempts=(*retried.attempts[:-1], last))
    assert isinstance(decide(replace(asked, history=history)), Resubmit)


@pytest.mark.parametrize(
    ("reason", "after", "names"),
    [(REASON, 1, ("n1",)), (REASON.lower(), 1, ("n1",)), (REASON, -1, ()), ("bad memory", 1, ()), ("", 1, ())],
)
def test_only_drains_of_this_attempt_count(reason: str, after: float, names: tuple[str, ...]) -> None:
    job = replace(ended(Cause.PREEMPTION).job, nodes=("n1", "n2"))
    assert job.start is not None
    drained = Node("n1", "idle", frozenset({"drain"}), reason, "root", job.start + timedelta(minutes=after))
    elsewhere = replace(drained, name="n9")
    assert left_drained(job, [drained, elsewhere, Node("n2", "idle")]) == names
