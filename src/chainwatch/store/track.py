"""The track of a chain: how far it was at which moment, and which saves were seen. Bounded, however long the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection

from chainwatch.model.checkpoint import Status
from chainwatch.store import schema
from chainwatch.store.database import Database
from chainwatch.store.records import Point, Save

MOST = 500
"""Points of a chain, about: so many a plot can show. Beyond it they lie further apart, evenly over the whole run."""
MOST_SAVES = 2000

_P, _S, _C = schema.points, schema.saves, schema.chains


class Track(Database):
    def add_point(self, chain: str, point: Point) -> bool:
        """Remember how far the chain was. False: the last point is as near as the plot's resolution."""
        with self._writing() as connection:
            chain_id = self._chain_id(connection, chain)
            here = _P.c.chain_id == chain_id
            span = select(func.count(), func.min(_P.c.at), func.max(_P.c.at)).where(here)
            many, first, last = connection.execute(span).one()
            if many and point.at < last + (point.at - first) / MOST:
                return False
            row = {"at": point.at, "step": point.step, "loss": point.loss}
            connection.execute(insert(_P).values(chain_id=chain_id, **row))
            if many >= 2 * MOST:
                self._thin(connection, chain_id, (point.at - first) / MOST)
            return True

    @staticmethod
    def _thin(connection: Connection, chain_id: int, apart: timedelta) -> None:
        rows = connection.execute(select(_P.c.id, _P.c.at).where(_P.c.chain_id == chain_id).order_by(_P.c.at, _P.c.id))
        kept: datetime | None = None
        near: list[int] = []
        for row in rows:
            if kept is not None and row.at - kept < apart:
                near.append(row.id)
            else:
                kept = row.at
        for begin in range(0, len(near), 400):
            connection.execute(delete(_P).where(_P.c.id.in_(near[begin : begin + 400])))

    def points(self, chain: str) -> list[Point]:
        """How far the chain was, oldest first."""
        query = select(_P.c.at, _P.c.step, _P.c.loss).join(_C).where(_C.c.name == chain).order_by(_P.c.at, _P.c.id)
        with self._reading() as connection:
            return [Point(**row._mapping) for row in connection.execute(query)]

    def put_saves(self, chain: str, seen: Sequence[Save]) -> int:
        """Remember the checkpoints that were seen; how many are new or judged anew. A path that was written again is
        another save."""
        if not seen:
            return 0
        changed = 0
        with self._writing() as connection:
            chain_id = self._chain_id(connection, chain)
            query = select(_S).where(_S.c.chain_id == chain_id, _S.c.at >= min(save.at for save in seen))
            known = {(row.path, row.at): row for row in connection.execute(query)}
            for save in seen:
                row = known.get((save.path, save.at))
                if row is None:
                    values = {"path": save.path, "at": save.at, "step": save.step, "status": save.status.value}
                    connection.execute(insert(_S).values(chain_id=chain_id, **values))
                elif (row.step, row.status) != (save.step, save.status.value):
                    connection.execute(
                        update(_S).where(_S.c.id == row.id).values(step=save.step, status=save.status.value)
                    )
                else:
                    continue
                changed += 1
            if changed:
                newest = select(_S.c.id).where(_S.c.chain_id == chain_id).order_by(_S.c.at.desc()).limit(MOST_SAVES)
                connection.execute(delete(_S).where(_S.c.chain_id == chain_id, _S.c.id.not_in(newest)))
        return changed

    def saves(self, chain: str, last: int | None = None) -> list[Save]:
        """The saves that were seen, oldest first; with `last` only that many newest ones."""
        query = (
            select(_S.c.path, _S.c.at, _S.c.step, _S.c.status)
            .join(_C)
            .where(_C.c.name == chain)
            .order_by(_S.c.at.desc(), _S.c.id.desc())
            .limit(last)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [Save(row.path, row.at, row.step, Status(row.status)) for row in reversed(rows)]
