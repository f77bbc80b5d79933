"""Effects that are owed: written before they are tried, closed when their outcome is known.

The order is what makes a submission happen exactly once: `begin_intent` (commit), `mark_tried` (commit), the effect
itself, `close_intent` (commit). After a crash the open intents say what may have happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, insert, select, update
from sqlalchemy.engine import Connection

from chainwatch.store import schema
from chainwatch.store.database import Database
from chainwatch.store.errors import IntentClosed, IntentOpen
from chainwatch.store.records import Intent, IntentKind, IntentStatus, Lease

_T, _C = schema.intents, schema.chains
_FIELDS = tuple(f.name for f in fields(Intent))


def _query() -> Select[Any]:
    columns = [_C.c.name.label("chain") if name == "chain" else _T.c[name] for name in _FIELDS]
    return select(*columns).join(_C)


def _intent(row: Row[Any]) -> Intent:
    return Intent(**row._mapping)


class Intents(Database):
    def begin_intent(
        self, lease: Lease | None, chain: str, kind: IntentKind, token: str, payload: Mapping[str, Any], now: datetime
    ) -> Intent:
        """Write down what is about to be done. `token` is unique for ever.

        Without a lease only for the first job of a chain that no daemon knows yet (`chainwatch sbatch`): the chain and its
        intent then appear in one transaction, and whoever has the lease settles it if the caller dies.

        Raises LeaseLost (also where the lease has run out at `now`), and IntentOpen if the chain has another submission
        whose outcome is not known.
        """
        with self._writing() as connection:
            self._check(connection, lease, now)
            chain_id = self._chain_id(connection, chain)
            if kind is IntentKind.SUBMIT:
                self._no_other_submission(connection, chain, chain_id)
            connection.execute(
                insert(_T).values(
                    chain_id=chain_id,
                    kind=kind,
                    token=token,
                    created=now,
                    payload=dict(payload),
                    status=IntentStatus.OPEN,
                    epoch=lease.epoch if lease else 0,
                    absent_rounds=0,
                    note="",
                )
            )
            return _intent(connection.execute(_query().where(_T.c.token == token)).one())

    @staticmethod
    def _no_other_submission(connection: Connection, chain: str, chain_id: int) -> None:
        other = connection.execute(
            select(_T.c.token).where(
                _T.c.chain_id == chain_id, _T.c.status == IntentStatus.OPEN, _T.c.kind == IntentKind.SUBMIT
            )
        ).scalar()
        if other is not None:
            raise IntentOpen(f"{chain} has the open submission {other}: its outcome must be known before the next one")

    def mark_tried(self, lease: Lease | None, intent: Intent, now: datetime) -> Intent:
        """The effect is tried from now on and may have happened from here; earlier looks for it count no more.

        Raises LeaseLost and IntentClosed: then do not try.
        """
        changes = {"tried_at": now, "absent_rounds": 0, "absent_at": None}
        return self._change(lease, intent, now, changes)

    def close_intent(
        self,
        lease: Lease | None,
        intent: Intent,
        status: IntentStatus,
        now: datetime,
        job_id: int | None = None,
        note: str = "",
    ) -> Intent:
        """Its outcome is known. Closing it again with the same status and job changes nothing; otherwise IntentClosed.

        The lease must be ours, but may have run out: a job that is known must be written down.
        """
        with self._writing(lease) as connection:
            known = self._one(connection, intent)
            if known.status is status and known.job_id == job_id:
                return known
            changes = {"status": status, "closed": now, "job_id": job_id, "note": note}
            return self._change(lease, intent, None, changes)

    def note_absent(self, intent: Intent, now: datetime) -> Intent:
        """One more conclusive look at `now` found the token nowhere. Raises IntentClosed."""
        with self._writing() as connection:
            rounds = self._one(connection, intent).absent_rounds + 1
            return self._change(None, intent, None, {"absent_rounds": rounds, "absent_at": now})

    def _change(
        self, lease: Lease | None, intent: Intent, not_after: datetime | None, changes: Mapping[str, Any]
    ) -> Intent:
        with self._writing() as connection:
            self._check(connection, lease, not_after)
            known = self._one(connection, intent)
            if known.status is not IntentStatus.OPEN:
                raise IntentClosed(
                    f"the {known.kind} {known.token} of {known.chain} was closed meanwhile ({known.status}"
                    f"{': ' + known.note if known.note else ''})"
                )
            connection.execute(update(_T).where(_T.c.id == intent.id).values(**changes))
            return replace(known, **changes)

    @staticmethod
    def _one(connection: Connection, intent: Intent) -> Intent:
        return _intent(connection.execute(_query().where(_T.c.id == intent.id)).one())

    def open_intents(self, chain: str | None = None) -> list[Intent]:
        """The intents whose outcome is not known, oldest first; of one chain or of all."""
        query = _query().where(_T.c.status == IntentStatus.OPEN).order_by(_T.c.id)
        with self._reading() as connection:
            rows = connection.execute(query if chain is None else query.where(_C.c.name == chain))
            return [_intent(row) for row in rows]

    def intents(self, chain: str, last: int | None = None) -> list[Intent]:
        """The chain's intents, open and closed, oldest first."""
        query = _query().where(_C.c.name == chain).order_by(_T.c.id.desc()).limit(last)
        with self._reading() as connection:
            return [_intent(row) for row in connection.execute(query)][::-1]

    def intent_by_token(self, token: str) -> Intent | None:
        """The intent whose token stands in a job's comment; of forgotten chains too. None: not from this store."""
        with self._reading() as connection:
            row = connection.execute(_query().where(_T.c.token == token)).one_or_none()
            return None if row is None else _intent(row)

    def submissions_since(self, moment: datetime, *, typed: bool) -> int:
        """How many submissions were tried since then, refused ones included; `typed`: also those of commands, which
        people type without a lease."""
        query = select(func.count()).select_from(_T).where(_T.c.kind == IntentKind.SUBMIT, _T.c.tried_at >= moment)
        if not typed:
            query = query.where(_T.c.epoch > 0)
        with self._reading() as connection:
            return int(connection.execute(query).scalar_one())
