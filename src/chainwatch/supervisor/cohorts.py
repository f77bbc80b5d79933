"""Cohorts among the chains of one house: who failed alike, and the one alert about it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from chainwatch.alerts.message import Kind, body
from chainwatch.diagnosis.cohorts import Cohort, Failure, find_cohorts, not_outlived
from chainwatch.model.chain import Attempt, ChainState
from chainwatch.recovery import over_before
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.house import House

COUNTS = frozenset(
    {
        ChainState.PENDING,
        ChainState.RUNNING,
        ChainState.RECOVERING,
        ChainState.WAITING,
        ChainState.RESTING,
        ChainState.STOPPED,
    }
)
"""A chain in one of these may show a failure: one that is done, paused or new shows none."""


class Cohorts:
    """Finds the cohorts of each pass, and tells people once of each for as long as it is one."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._told: set[str] | None = None
        """Keys of the last pass; of what an earlier daemon told nobody knows."""

    def look(
        self, chains: Sequence[ChainRecord], past: Mapping[str, Sequence[Attempt]], now: datetime
    ) -> dict[Failure, Cohort]:
        """The cohorts of this pass, after people were told of the new ones."""
        last: dict[str, tuple[str, Attempt]] = {}
        for record in chains:
            attempt = not_outlived(past[record.name], now) if record.state in COUNTS else None
            if attempt is not None and not over_before(attempt, record.retried_at):
                last[record.name] = record.template, attempt
        found = find_cohorts(last)
        for cohort in found.values():
            name = os.path.basename(cohort.template)
            title = f"{len(cohort.chains)} chains of {name} failed in the same way, and none is retried"
            said = body(
                Kind.PERSON, what=cohort.sentence(), line=cohort.line, wants="mend it once, then retry them together",
                command=f"chainwatch retry --cohort {cohort.chains[0]}",
            )  # fmt: skip
            self.house.store.owe(None, cohort.key, "critical", title, said, now)
        self._over({cohort.key for cohort in found.values()}, now)
        return found

    def _over(self, keys: set[str], now: datetime) -> None:
        """What was told of cohorts that are none any more is over: should they fail alike again, it is told again."""
        if self._told is None:
            self._told = {n.key for n in self.house.store.active_notices() if n.key.startswith("cohort:")}
        for key in self._told - keys:
            self.house.store.recover(key, now)
        self._told = keys
