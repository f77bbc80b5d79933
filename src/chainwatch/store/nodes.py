"""Nodes that chains keep away from."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Delete, delete, insert, or_, select

from chainwatch.model.chain import ExcludedNode
from chainwatch.store import schema
from chainwatch.store.database import Database

_T, _C = schema.excluded_nodes, schema.chains


def _one(node: str, chain_id: int | None) -> Delete:
    return delete(_T).where(_T.c.node == node, _T.c.chain_id.is_not_distinct_from(chain_id))


class Nodes(Database):
    def exclude(self, excluded: ExcludedNode) -> None:
        """Keep away from the node; what was said before for the same node and chain is replaced."""
        with self._writing() as connection:
            chain_id = None if excluded.chain is None else self._chain_id(connection, excluded.chain)
            connection.execute(
                delete(_T).where(_T.c.node == excluded.node, _T.c.chain_id.is_not_distinct_from(chain_id))
            )
            connection.execute(
                insert(_T).values(
                    node=excluded.node,
                    chain_id=chain_id,
                    why=excluded.why,
                    since=excluded.since,
                    until=excluded.until,
                )
            )

    def excluded(self, now: datetime, chain: str | None = None) -> list[ExcludedNode]:
        """The exclusions in force, oldest first: with a chain its own and those for all, without one every one."""
        query = (
            select(_T.c.node, _T.c.why, _T.c.since, _T.c.until, _C.c.name.label("chain"))
            .select_from(_T)
            .outerjoin(_C, _T.c.chain_id == _C.c.id)
            .where(_T.c.until > now)
            .order_by(_T.c.since, _T.c.id)
        )
        if chain is not None:
            query = query.where(or_(_T.c.chain_id.is_(None), _C.c.name == chain))
        with self._reading() as connection:
            return [ExcludedNode(**row._mapping) for row in connection.execute(query)]

    def unexclude(self, node: str, chain: str | None) -> bool:
        """Use the node again: for that chain, or (None) what was said for all chains. False: it was not excluded."""
        with self._writing() as connection:
            chain_id = None if chain is None else self._chain_id(connection, chain)
            return bool(connection.execute(_one(node, chain_id)).rowcount)
