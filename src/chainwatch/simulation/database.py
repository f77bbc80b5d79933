"""The accounting database: late, sometimes away, and never in a hurry to say that a job runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from random import Random

from chainwatch.model.job import AttemptId, Job
from chainwatch.simulation.clock import VirtualClock
from chainwatch.simulation.settings import Settings


class Database:
    """Rows of slurmdbd. The controller posts; what it posts shows after a lag, or when slurmdbd is back."""

    def __init__(self, clock: VirtualClock, settings: Settings, random: Random) -> None:
        self._clock, self._settings, self._random = clock, settings, random
        self._rows: dict[AttemptId, Job] = {}
        self._eligible: set[AttemptId] = set()
        self._waiting: list[tuple[Job, bool]] = []
        self._last = 0.0
        self._extra_lag = 0.0
        self._settled_at = 0.0
        self.up = settings.accounting

    def post(self, row: Job, *, eligible: bool = True) -> None:
        """The controller reports a new state of an attempt. `eligible`: window queries will find it."""
        if not self._settings.accounting:
            return
        if not self.up:
            self._waiting.append((row, eligible))
            return
        lag = self._random.uniform(*self._settings.accounting_lag) + self._extra_lag
        self._last = max(self._last, self._clock.time + lag, self._settled_at)
        self._clock.at(self._last, lambda: self._store(row, eligible))

    def stop(self) -> None:
        """slurmdbd goes away: what ends meanwhile waits in the controller."""
        self.up = False

    def start(self) -> None:
        """slurmdbd is back. For a while sacct answers with exit 0 and *no row* for jobs that run."""
        if self.up or not self._settings.accounting:
            return
        self.up = True
        self._settled_at = self._clock.time + self._settings.accounting_catch_up
        waiting, self._waiting = self._waiting, []
        self._last = max(self._last, self._settled_at)
        for row, eligible in waiting:
            self._clock.at(self._last, _storing(self._store, row, eligible))

    def slow(self, lag: float) -> None:
        """Everything is late by `lag` seconds more from now on (0: as usual)."""
        self._extra_lag = lag

    def rows(self, ids: Collection[int], since: datetime | None, user: str | None) -> list[Job]:
        """Rows by raw id, or with `since` of a window; oldest submission first."""
        settling = self._clock.time < self._settled_at
        found = [
            row
            for key, row in self._rows.items()
            if (row.end is not None or not settling)
            and (row.attempt.job_id in ids or (since is not None and not ids))
            and (user is None or row.user == user)
            and (since is None or (key in self._eligible and (row.end is None or row.end >= since)))
        ]
        return sorted(found, key=lambda row: (row.attempt.submitted, row.attempt.job_id, row.shown_id))

    def _store(self, row: Job, eligible: bool) -> None:
        self._rows[row.attempt] = row
        if eligible:
            self._eligible.add(row.attempt)


def _storing(store: Callable[[Job, bool], None], row: Job, eligible: bool) -> Callable[[], None]:
    return lambda: store(row, eligible)
