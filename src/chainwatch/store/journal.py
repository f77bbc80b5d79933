"""The journal of changes to user data: planned before they are made, so that every one can be undone."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, insert, select, update

from chainwatch.store import schema
from chainwatch.store.database import Database
from chainwatch.store.errors import StoreError
from chainwatch.store.records import Move

_T, _C = schema.moves, schema.chains
_FIELDS = tuple(f.name for f in fields(Move))
MOVE_STATES = ("planned", "made", "undone")


def _query() -> Select[Any]:
    columns = [_C.c.name.label("chain") if name == "chain" else _T.c[name] for name in _FIELDS]
    return select(*columns).select_from(_T).outerjoin(_C, _T.c.chain_id == _C.c.id).order_by(_T.c.id)


class Journal(Database):
    def plan_move(
        self, chain: str | None, kind: str, path: str, target: str, before: str, why: str, now: datetime
    ) -> Move:
        """Write down a change to user data before it is made."""
        with self._writing() as connection:
            values = {
                "chain_id": None if chain is None else self._chain_id(connection, chain),
                "kind": kind,
                "path": path,
                "target": target,
                "before": before,
                "at": now,
                "state": "planned",
                "changed": now,
                "why": why,
            }
            row_id = connection.execute(insert(_T).values(**values).returning(_T.c.id)).scalar_one()
            return Move(**connection.execute(_query().where(_T.c.id == row_id)).one()._mapping)

    def mark_move(self, move_id: int, state: str, now: datetime) -> Move:
        """The change was `made`, or `undone` (which is also what a planned change is that never happened)."""
        if state not in MOVE_STATES:
            raise ValueError(f"a move is {', '.join(MOVE_STATES)}, not {state!r}")
        with self._writing() as connection:
            connection.execute(update(_T).where(_T.c.id == move_id).values(state=state, changed=now))
            row = connection.execute(_query().where(_T.c.id == move_id)).one_or_none()
            if row is None:
                raise StoreError(f"there is no move {move_id}")
            return Move(**row._mapping)

    def moves(self, state: str | None = None, path: str | None = None) -> list[Move]:
        """The journal, oldest first; only those in a state, and only those of a path."""
        query = _query()
        if state is not None:
            query = query.where(_T.c.state == state)
        if path is not None:
            query = query.where(_T.c.path == path)
        with self._reading() as connection:
            return [Move(**row._mapping) for row in connection.execute(query)]
