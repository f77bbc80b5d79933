"""The outbox: what is owed to people, told once, and never lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, insert, or_, select, update

from chainwatch.store import schema
from chainwatch.store.database import Database
from chainwatch.store.errors import StoreError
from chainwatch.store.records import Notice

_T, _C = schema.notices, schema.chains
_FIELDS = tuple(f.name for f in fields(Notice))


def _query() -> Select[Any]:
    columns = [_C.c.name.label("chain") if name == "chain" else _T.c[name] for name in _FIELDS]
    return select(*columns).select_from(_T).outerjoin(_C, _T.c.chain_id == _C.c.id).order_by(_T.c.id)


class Notices(Database):
    def owe(
        self, chain: str | None, key: str, severity: str, title: str, body: Mapping[str, Any], now: datetime
    ) -> bool:
        """Something must be told. False: that key is owed or told already and has not recovered, so nothing is added.

        Write it in the transaction that records why, so that neither exists without the other.
        """
        with self._writing() as connection:
            if connection.execute(select(_T.c.id).where(_T.c.key == key, _T.c.recovered.is_(None))).first():
                return False
            connection.execute(
                insert(_T).values(
                    chain_id=None if chain is None else self._chain_id(connection, chain),
                    key=key,
                    severity=severity,
                    title=title,
                    body=dict(body),
                    created=now,
                    tries=0,
                    last_error="",
                )
            )
            return True

    def recover(self, key: str, now: datetime) -> bool:
        """What the key stands for is over; the next `owe` tells again. An undelivered notice stays owed.

        True if it was owed or told.
        """
        with self._writing() as connection:
            over = update(_T).where(_T.c.key == key, _T.c.recovered.is_(None)).values(recovered=now)
            return bool(connection.execute(over).rowcount)

    def due_notices(self, now: datetime) -> list[Notice]:
        """The notices to deliver now, oldest first."""
        due = _query().where(_T.c.delivered.is_(None), or_(_T.c.next_try.is_(None), _T.c.next_try <= now))
        return self._notices(due)

    def undelivered(self) -> list[Notice]:
        """All notices that nobody got yet, whenever they are tried next; oldest first."""
        return self._notices(_query().where(_T.c.delivered.is_(None)))

    def active_notices(self, chain: str | None = None) -> list[Notice]:
        """What was told or is owed and has not recovered; of one chain or of all."""
        query = _query().where(_T.c.recovered.is_(None))
        return self._notices(query if chain is None else query.where(_C.c.name == chain))

    def _notices(self, query: Select[Any]) -> list[Notice]:
        with self._reading() as connection:
            return [Notice(**row._mapping) for row in connection.execute(query)]

    def delivered(self, notice_id: int, now: datetime) -> None:
        """A person got it."""
        self._set(notice_id, delivered=now, tries=_T.c.tries + 1, next_try=None, last_error="")

    def failed(self, notice_id: int, now: datetime, error: str, next_try: datetime) -> None:
        """Delivery failed at `now`; it is due again at `next_try`."""
        if next_try < now:
            raise ValueError(f"the next try ({next_try}) lies before the failed one ({now})")
        self._set(notice_id, tries=_T.c.tries + 1, next_try=next_try, last_error=error)

    def _set(self, notice_id: int, **values: Any) -> None:
        with self._writing() as connection:
            if not connection.execute(update(_T).where(_T.c.id == notice_id).values(**values)).rowcount:
                raise StoreError(f"there is no notice {notice_id}")
