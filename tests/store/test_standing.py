"""Where a chain stands: rate, time left, work at risk; never a number where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.model.chain import ChainState, Mode
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.store.standing import JOURNEY, Standing, journeyed, standing

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RUNS = ChainRecord(
    "a", "alpha", Origin.CONFIG, Mode.ACT, {"checkpoints": {"directory": "ckpt"}}, NOON, state=ChainState.RUNNING,
    step=5000, saved_step=4000, target=10_000, facts={"rate": 2.0},
)  # fmt: skip


def test_what_is_at_risk_is_what_was_done_since_the_newest_intact_checkpoint_of_a_running_job() -> None:
    stands = standing(RUNS, NOON)
    assert (stands.at_risk_steps, stands.at_risk_seconds, stands.eta_seconds) == (1000, 500, 2500)
    assert standing(replace(RUNS, saved_step=None), NOON).at_risk_steps == 5000
    assert standing(replace(RUNS, saved_step=None, settings={}), NOON).at_risk_steps is None, (
        "nobody says where it saves"
    )
    assert standing(replace(RUNS, state=ChainState.PENDING), NOON).at_risk_steps is None
    assert standing(replace(RUNS, facts={}), NOON).at_risk_seconds is None


def test_nothing_is_made_up_of_an_empty_record() -> None:
    empty = replace(RUNS, step=None, saved_step=None, target=None, facts={}, state=ChainState.NEW)
    assert standing(empty, NOON) == Standing()
    odd: dict[str, Any] = {"rate": "fast", "tokens": "many", JOURNEY: [["yesterday", 3]]}
    assert standing(replace(empty, facts=odd), NOON) == Standing()


def test_the_time_left_overall_counts_interruptions_and_lost_work() -> None:
    facts: dict[str, Any] = {}
    now = NOON
    for hours, step in ((0, 0), (4, 28_800), (4, 20_000), (10, 20_000), (2, 34_400)):
        now += hours * HOUR
        facts[JOURNEY] = journeyed(facts, step, now)
    stands = standing(replace(RUNS, step=34_400, target=68_800, facts={**facts, "rate": 2.0}), now)
    assert stands.eta_seconds == 17_200
    assert stands.eta_overall_seconds == 20 * 3600, "half of it took twenty hours, with a night in the queue"
    waits = standing(replace(RUNS, step=34_400, target=68_800, facts=facts, state=ChainState.PENDING), now)
    assert (waits.eta_seconds, waits.eta_overall_seconds) == (None, 20 * 3600)


def test_the_journey_remembers_a_week_in_few_points() -> None:
    facts: dict[str, Any] = {}
    for minute in range(0, 60 * 24 * 10, 10):
        facts[JOURNEY] = journeyed(facts, minute, NOON + timedelta(minutes=minute))
    assert len(facts[JOURNEY]) <= 57
    first = datetime.fromisoformat(facts[JOURNEY][0][0])
    assert NOON + timedelta(days=10) - first <= timedelta(days=7, hours=3)
    assert journeyed({}, None, NOON) == []
