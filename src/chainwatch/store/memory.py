"""Counters for the metrics, and small facts that the loop keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select, update

from chainwatch.store import schema
from chainwatch.store.database import Database

_COUNTERS, _MEMORY = schema.counters, schema.memory


class Memory(Database):
    def bump(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Raise a counter. It outlives the daemon, so that a restart is no reset."""
        here = (_COUNTERS.c.name == name) & (_COUNTERS.c.labels == dict(labels))
        with self._writing() as connection:
            raised = connection.execute(update(_COUNTERS).where(here).values(value=_COUNTERS.c.value + by))
            if not raised.rowcount:
                connection.execute(insert(_COUNTERS).values(name=name, labels=dict(labels), value=by))

    def counters(self) -> list[tuple[str, dict[str, str], float]]:
        """All counters: name, labels, value."""
        with self._reading() as connection:
            rows = connection.execute(select(_COUNTERS).order_by(_COUNTERS.c.name, _COUNTERS.c.labels))
            return [(row.name, row.labels, row.value) for row in rows]

    def remember(self, key: str, value: Any) -> None:
        """Keep a small JSON value under a key; None forgets it."""
        with self._writing() as connection:
            if value is None:
                connection.execute(delete(_MEMORY).where(_MEMORY.c.key == key))
                return
            if not connection.execute(update(_MEMORY).where(_MEMORY.c.key == key).values(value=value)).rowcount:
                connection.execute(insert(_MEMORY).values(key=key, value=value))

    def recall(self, key: str) -> Any:
        """The value that was remembered, or None."""
        with self._reading() as connection:
            return connection.execute(select(_MEMORY.c.value).where(_MEMORY.c.key == key)).scalar()
