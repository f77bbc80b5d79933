"""Engines for the two databases, set up so that both behave alike: durable, and with a single writer at a time."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from chainwatch.store.errors import StoreError
from chainwatch.store.filesystem import is_local

FILE_NAME = "chainwatch.db"
"""SQLite's file in the state directory."""
BUSY_SECONDS = 30
"""How long a writer waits for another one before it gives up."""
_LOCK_KEY = 0x636861696E  # "chain": the advisory lock of PostgreSQL under which all writing happens


def database_url(state_dir: Path, url: str | None) -> URL:
    """The SQLAlchemy URL of the database: SQLite in the state directory unless another one is given."""
    if url is None:
        return URL.create("sqlite", database=str(state_dir / FILE_NAME))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "database is not a URL like postgresql://user@host/name or sqlite:////path/to/file.db"
        ) from None
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        return parsed.set(drivername="sqlite")
    raise StoreError(f"the database {shown(parsed)} is neither PostgreSQL nor an SQLite file: use one of these")


def shown(url: URL) -> str:
    """The database in words for people, without a password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """An engine whose transactions are what `single_writer` says. Opens no connection yet."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
    else:
        try:
            engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        except ModuleNotFoundError:
            raise StoreError("PostgreSQL needs the psycopg driver: pip install 'chainwatch[postgresql]'") from None
    event.listen(engine, "begin", single_writer)
    return engine


def single_writer(connection: Connection) -> None:
    """Writers queue up from the beginning of their transaction: what one reads stays true until its commit.

    SQLite does it by BEGIN IMMEDIATE, which also avoids the dead lock of two readers that both want to write; on
    PostgreSQL an advisory lock does the same. Readers never wait for it.
    """
    writes = connection.get_execution_options().get("chainwatch_write", False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        connection.execute(text(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})"))


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where `single_writer` says, not where the driver guesses
    for pragma in ("foreign_keys=ON", "synchronous=FULL", f"busy_timeout={BUSY_SECONDS * 1000}", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def choose_journal(engine: Engine, path: Path) -> str:
    """Write-ahead log on a file system of this machine, a plain rollback journal on any other. Returns the mode.

    The mode stays in the file, so it is changed only where it differs (a state directory that moved to NFS).
    """
    wanted = "wal" if is_local(path) else "delete"
    raw = engine.raw_connection()
    try:
        mode = str(_one(raw, "PRAGMA journal_mode"))
        if mode != wanted:
            try:
                mode = str(_one(raw, f"PRAGMA journal_mode={wanted}"))
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                # Another process is at work in the present mode, which holds: the next one alone changes it.
        return mode
    finally:
        raw.close()


def _one(raw: Any, statement: str) -> Any:
    cursor = raw.cursor()
    try:
        return cursor.execute(statement).fetchone()[0]
    finally:
        cursor.close()
