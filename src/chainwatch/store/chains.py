"""The chains and what is asked of them."""

from __future__ import annotations

import re
from dataclasses import fields
from math import inf
from typing import Any, get_type_hints

from pydantic import ValidationError
from sqlalchemy import Row, delete, func, insert, select, update

from chainwatch.store import schema
from chainwatch.store.codec import checked
from chainwatch.store.database import Database
from chainwatch.store.errors import ChainExists, IntentOpen, StoreError, UnknownChain
from chainwatch.store.records import ChainRecord, IntentStatus

_T = schema.chains
_FIELDS = tuple(f.name for f in fields(ChainRecord))
_HINTS = get_type_hints(ChainRecord)
_COLUMNS = [_T.c[name] for name in _FIELDS]


def _record(row: Row[Any]) -> ChainRecord:
    return ChainRecord(**row._mapping)


def _as_counted(name: str) -> tuple[list[tuple[float, str]], str]:
    """A name as people sort it: its numbers by their size."""
    parts = [(int(part), "") if part.isdecimal() else (inf, part) for part in re.split(r"(\d+)", name) if part]
    return parts, name


def _validated(changes: dict[str, Any]) -> dict[str, Any]:
    for name, value in changes.items():
        if name not in _HINTS:
            raise StoreError(f"a chain has no field {name!r}")
        try:
            checked(_HINTS[name], value)
        except ValidationError as error:
            message = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise StoreError(f"a chain's {name} cannot be {value!r}: {message}") from None
    return changes


class Chains(Database):
    def chains(self) -> list[ChainRecord]:
        """All chains that are registered, by name, run-2 before run-10; forgotten ones are not among them."""
        with self._reading() as connection:
            rows = connection.execute(select(*_COLUMNS).where(_T.c.archived.is_(False)))
            return sorted((_record(row) for row in rows), key=lambda record: _as_counted(record.name))

    def count_chains(self) -> int:
        """How many chains are registered."""
        with self._reading() as connection:
            return int(connection.execute(select(func.count()).where(_T.c.archived.is_(False))).scalar_one())

    def chain(self, name: str) -> ChainRecord | None:
        """The chain of that name, or None."""
        with self._reading() as connection:
            row = connection.execute(select(*_COLUMNS).where(_T.c.name == name)).one_or_none()
            return None if row is None else _record(row)

    def add_chain(self, record: ChainRecord) -> None:
        """Register a chain. Raises ChainExists."""
        values = _validated({name: getattr(record, name) for name in _FIELDS})
        with self._writing() as connection:
            if connection.execute(select(_T.c.id).where(_T.c.name == record.name)).first():
                raise ChainExists(
                    f"a chain named {record.name!r} is registered already: choose another name, or "
                    f"`chainwatch forget {record.name}` first"
                )
            connection.execute(insert(_T).values(**values, archived=False))

    def update_chain(self, name: str, **changes: Any) -> ChainRecord:
        """Set these fields and no others, so that the loop and a command may each change their own at the same time.

        A field that a chain does not have, or a value that is not of its type, is a StoreError. Raises UnknownChain.
        """
        _validated(changes)
        with self._writing() as connection:
            row_id = self._chain_id(connection, name)
            if changes:
                connection.execute(update(_T).where(_T.c.id == row_id).values(**changes))
            return _record(connection.execute(select(*_COLUMNS).where(_T.c.id == row_id)).one())

    def forget_chain(self, name: str) -> str:
        """Unregister a chain, and return the name under which its history is kept: `NAME~7`.

        History stays, since what a run cost and why it died is asked later; the name becomes free, since a new run of
        that name must not inherit attempts and budgets of the old one (`~` stands in no chain's name). Raises
        UnknownChain, and IntentOpen while a submission was tried and its outcome is not known: its job would be
        nobody's.
        """
        intents, excluded = schema.intents, schema.excluded_nodes
        with self._writing() as connection:
            row_id = self._chain_id(connection, name)
            if connection.execute(select(_T.c.archived).where(_T.c.id == row_id)).scalar():
                raise UnknownChain(f"{name!r} is forgotten already: only its history is kept")
            open_here = (intents.c.chain_id == row_id) & (intents.c.status == IntentStatus.OPEN)
            tried = select(func.count()).where(open_here, intents.c.tried_at.is_not(None)).select_from(intents)
            if connection.execute(tried).scalar():
                raise IntentOpen(
                    f"{name} has an action on its way whose outcome is not known yet: let the daemon settle it (a few "
                    "minutes), then forget the chain"
                )
            connection.execute(
                update(intents).where(open_here).values(status=IntentStatus.ABANDONED, note="the chain was forgotten")
            )
            connection.execute(delete(excluded).where(excluded.c.chain_id == row_id))
            kept = f"{name}~{row_id}"
            connection.execute(update(_T).where(_T.c.id == row_id).values(name=kept, archived=True))
            return kept

    def forgotten_chains(self) -> list[ChainRecord]:
        """The chains that were forgotten, under the names that their history is kept by."""
        with self._reading() as connection:
            rows = connection.execute(select(*_COLUMNS).where(_T.c.archived.is_(True)).order_by(_T.c.id))
            return [_record(row) for row in rows]
