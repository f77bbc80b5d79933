"""How far a chain is and how fast, from its record: what `status`, the page and the metrics show. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chainwatch.model.chain import ChainState
from chainwatch.store.records import ChainRecord

JOURNEY = "journey"
"""Fact of the chain's record: where it was every few hours of the last days, as pairs of time and step."""
_APART, _WINDOW = timedelta(hours=3), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a chain stands at one moment. None: not known."""

    steps_per_second: float | None = None
    """Over the recent past of the running job."""
    eta_seconds: float | None = None
    """Of training left, at that rate."""
    steps_per_second_overall: float | None = None
    """Over the last seven days of wall-clock time: preemptions, waiting and lost work included."""
    eta_overall_seconds: float | None = None
    """Until the final step, at that rate."""
    at_risk_steps: int | None = None
    """Work at risk: steps since the newest intact checkpoint, of a job that runs."""
    at_risk_seconds: float | None = None
    """The time that they took."""
    step_at: datetime | None = None
    """When the newest step was first seen."""
    tokens: int | None = None
    loss: float | str | None = None
    """`nan` and `inf` as words, since JSON knows neither."""
    phase: str = ""


def standing(chain: ChainRecord, now: datetime) -> Standing:
    """Where the chain stands."""
    facts = chain.facts
    rate, overall = _positive(facts.get("rate")), _overall(chain, now)
    running = chain.state is ChainState.RUNNING
    unsaved = _unsaved(chain) if running else None
    tokens, loss, at = facts.get("tokens"), facts.get("loss"), facts.get("step_at")
    return Standing(
        steps_per_second=rate,
        eta_seconds=_left(chain, rate),
        steps_per_second_overall=overall,
        eta_overall_seconds=None if chain.state is ChainState.DONE else _left(chain, overall),
        at_risk_steps=unsaved,
        at_risk_seconds=unsaved / rate if unsaved is not None and rate else None,
        step_at=datetime.fromisoformat(at) if isinstance(at, str) else None,
        tokens=tokens if isinstance(tokens, int) else None,
        loss=loss if isinstance(loss, int | float | str) else None,
        phase=str(facts.get("phase") or ""),
    )


def journeyed(facts: Mapping[str, Any], step: int | None, now: datetime) -> list[list[Any]]:
    """The fact `JOURNEY`, brought up to date."""
    known = [each for each in _journey(facts) if now - each[0] <= _WINDOW]
    if step is not None and (not known or now - known[-1][0] >= _APART):
        known.append((now, step))
    return [[at.isoformat(), reached] for at, reached in known]


def _journey(facts: Mapping[str, Any]) -> list[tuple[datetime, int]]:
    try:
        return [(datetime.fromisoformat(at), int(step)) for at, step in facts.get(JOURNEY) or ()]
    except (TypeError, ValueError):
        return []


def _overall(chain: ChainRecord, now: datetime) -> float | None:
    known = [each for each in _journey(chain.facts) if now - each[0] <= _WINDOW]
    if not known or chain.step is None:
        return None
    seconds = (now - known[0][0]).total_seconds()
    return (chain.step - known[0][1]) / seconds if seconds >= 60 and chain.step > known[0][1] else None


def _left(chain: ChainRecord, rate: float | None) -> float | None:
    if rate is None or chain.target is None or chain.step is None:
        return None
    return max(0, chain.target - chain.step) / rate


def _unsaved(chain: ChainRecord) -> int | None:
    if chain.step is None or (chain.saved_step is None and not chain.settings.get("checkpoints")):
        return None
    return max(0, chain.step - (chain.saved_step or 0))


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
