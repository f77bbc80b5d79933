"""What a chain's history says about its saves: how often it saves, how long that takes, how soon it is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median

from chainwatch.diagnosis.hang import Pace
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Status
from chainwatch.model.verdict import Outcome
from chainwatch.store import Store
from chainwatch.store.records import Save

ENOUGH = 3
"""Ends, gaps or saves that are needed before anything is said."""


@dataclass(frozen=True, slots=True)
class Past:
    """None: too little is known."""

    between_failures: timedelta | None = None
    """Mean time that a job of the chain runs before it is interrupted."""
    save_every: timedelta | None = None
    save_takes: timedelta | None = None


def measured(attempts: Sequence[Attempt], saves: Sequence[Save], pace: Pace) -> Past:
    """What these say. An attempt that reached the end was not interrupted, but ran all the same."""
    ran, interrupted = timedelta(0), 0
    gaps: list[timedelta] = []
    for attempt in attempts:
        start, end = attempt.job.start, attempt.ended
        if start is None or end is None or attempt.verdict is None:
            continue
        ran += end - start
        interrupted += attempt.verdict.outcome is not Outcome.DONE
        inside = sorted(s.at for s in saves if s.status is Status.INTACT and start <= s.at <= end)
        gaps += [later - earlier for earlier, later in pairwise(inside)]
    saving = pace.usual("saving", 0.5) if pace.count("saving") >= ENOUGH else 0.0
    return Past(
        between_failures=ran / interrupted if interrupted >= ENOUGH else None,
        save_every=timedelta(seconds=round(median(g.total_seconds() for g in gaps))) if len(gaps) >= ENOUGH else None,
        save_takes=timedelta(seconds=max(1, round(saving))) if saving else None,
    )


def of_chain(store: Store, name: str) -> Past | None:
    """What the store remembers of that chain; None where it knows no such chain."""
    chain = store.chain(name)
    if chain is None:
        return None
    return measured(store.attempts(name), store.saves(name), Pace.of(chain.facts.get("pace")))
