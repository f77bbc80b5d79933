"""One database: connections, transactions, and the check of the lease inside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from chainwatch.store import schema
from chainwatch.store.errors import DATABASE_ERRORS, LeaseLost, StoreError, UnknownChain, translated
from chainwatch.store.records import Lease


class Database:
    """What every part of the store stands on. Each thread has its own transaction; the object may be shared."""

    def __init__(self, engine: Engine, where: str) -> None:
        self.engine = engine
        self.where = where
        """The database in words for people, without a password."""
        self._local = threading.local()

    @contextmanager
    def transaction(self, lease: Lease | None = None) -> Iterator[None]:
        """Everything inside becomes visible in one commit, or not at all.

        With a lease its epoch is checked inside the same transaction, so a daemon that was overtaken commits nothing
        (LeaseLost). A nested call joins the outer one: an error inside it undoes the inner part, and the outer one too
        unless the caller handles it.
        """
        with self._writing(lease):
            yield

    @contextmanager
    def _writing(self, lease: Lease | None = None) -> Iterator[Connection]:
        outer: Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            with self._errors(), _savepoint(outer):
                self._check(outer, lease)
                yield outer
            return
        with self._errors(), self.engine.connect() as connection:
            writer = connection.execution_options(chainwatch_write=True)
            with writer.begin():
                self._local.connection = writer
                try:
                    self._check(writer, lease)
                    yield writer
                finally:
                    self._local.connection = None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """The transaction that is under way, or one consistent look."""
        outer: Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            with self._errors():
                yield outer
            return
        with self._errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except DATABASE_ERRORS as error:
            raise translated(error, self.where) from error

    def _check(self, connection: Connection, lease: Lease | None, now: datetime | None = None) -> None:
        """The lease is ours, and with `now` also not yet over. Nobody can take it before the commit: there is a single
        writer at a time (`engine.single_writer`)."""
        if lease is None:
            return
        row = connection.execute(select(schema.leases)).one()
        if row.epoch != lease.epoch or row.holder != lease.holder:
            owner = f"{row.holder} has it now" if row.holder else "it was given back"
            raise LeaseLost(f"the lease of {lease.holder} is lost ({owner}): this daemon stops and changes nothing")
        if now is not None and (row.until is None or now >= row.until):
            raise LeaseLost(
                f"the lease of {lease.holder} ran out at {row.until:%H:%M:%S} UTC and was not renewed in time: "
                "this daemon stops and changes nothing"
            )

    def _chain_id(self, connection: Connection, name: str) -> int:
        found = connection.execute(select(schema.chains.c.id).where(schema.chains.c.name == name)).scalar()
        if found is None:
            raise UnknownChain(f"no chain is named {name!r}: `chainwatch status` lists them")
        return int(found)


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """The inner part of a transaction. Where the database undid the whole transaction by itself (SQLite does on a full
    disk), nothing more can happen in it, also if the caller handles the error: it would be outside of any transaction.
    """
    savepoint = connection.begin_nested()
    try:
        yield
    except BaseException:
        try:
            savepoint.rollback()
        except SQLAlchemyError:
            connection.invalidate()
        raise
    savepoint.commit()
