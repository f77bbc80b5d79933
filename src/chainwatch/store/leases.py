"""The right to act: one daemon a state directory, with a time to live and an epoch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.engine import Connection

from chainwatch.store import liveness, schema
from chainwatch.store.database import Database
from chainwatch.store.errors import LeaseHeld, LeaseLost
from chainwatch.store.records import Lease

_T = schema.leases


def _at_work(row: Row[Any], now: datetime, dead_check: Callable[[str], bool] | None = None) -> bool:
    if not row.holder or row.until is None or now >= row.until:
        return False
    dead = dead_check(row.holder) if dead_check else liveness.surely_dead(row.holder, row.kernel, row.started)
    return not dead


def owner_at_work(connection: Connection, now: datetime) -> str:
    """The holder of a lease that has not run out, if its process is not surely dead; otherwise empty."""
    row = connection.execute(select(_T)).one_or_none()
    return str(row.holder) if row is not None and _at_work(row, now) else ""


class Leases(Database):
    def acquire_lease(
        self,
        holder: str,
        ttl: timedelta,
        now: datetime,
        *,
        force_dead_check: Callable[[str], bool] | None = None,
    ) -> Lease:
        """Take the lease for `holder` (`host:pid`): free, run out, its owner surely dead, or one's own already.

        Each taking raises the epoch, so whatever an earlier owner still tries to commit fails. `force_dead_check`
        replaces the test whether the owner is dead (default: this kernel and pid namespace, and no such process).
        Raises LeaseHeld.
        """
        with self._writing() as connection:
            row = connection.execute(select(_T)).one()
            if row.holder != holder and _at_work(row, now, force_dead_check):
                raise LeaseHeld(row.holder, row.until)
            pid = liveness.pid_of(holder)
            lease = Lease(holder, row.epoch + 1, now + ttl)
            connection.execute(
                update(_T).values(
                    holder=holder,
                    epoch=lease.epoch,
                    until=lease.until,
                    kernel=liveness.kernel(),
                    started=liveness.started(pid) if pid is not None else "",
                )
            )
            return lease

    def renew_lease(self, lease: Lease, ttl: timedelta, now: datetime) -> Lease:
        """Extend it to `now + ttl`; also after it ran out, if nobody took it. Raises LeaseLost."""
        with self._writing(lease) as connection:
            renewed = Lease(lease.holder, lease.epoch, now + ttl)
            connection.execute(update(_T).values(until=renewed.until))
            return renewed

    def release_lease(self, lease: Lease) -> None:
        """Give it back, so that the next daemon starts at once. A lease that is lost already is no error."""
        try:
            with self._writing(lease) as connection:
                connection.execute(update(_T).values(holder=""))
        except LeaseLost:
            pass

    def at_work(self, now: datetime) -> str:
        """The daemon that looks after this state: `host:pid` of a lease that has not run out; empty if there is none."""
        with self._reading() as connection:
            return owner_at_work(connection, now)

    def lease(self) -> Lease | None:
        """Who has the lease (perhaps no longer: compare `until`); None when it was given back or never taken."""
        with self._reading() as connection:
            row = connection.execute(select(_T)).one()
            return Lease(row.holder, row.epoch, row.until) if row.holder else None
