"""Bringing a database to the newest schema, or refusing one that is newer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection, Engine

from chainwatch.store import schema
from chainwatch.store.errors import NewerSchema, StoreError

MIGRATIONS = Path(__file__).parent / "migrations"


def revision(connection: Connection) -> str | None:
    """The database's schema revision; None for an empty database. A database of something else is a StoreError."""
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found is not None:
            return str(found)
    if tables - {"alembic_version"}:
        raise StoreError("it holds tables that are not chainwatch's: use a database of its own")
    return None


def migrate(
    engine: Engine,
    *,
    head: str = schema.HEAD,
    scripts: Path = MIGRATIONS,
    before_upgrade: Callable[[Connection, str], None] | None = None,
) -> bool:
    """Make the schema the newest one; True if anything was changed.

    All in one transaction: a crash leaves the old schema. `before_upgrade` is called with the open transaction and the
    old revision before an existing database is changed. Raises NewerSchema where this program does not know the
    database's revision.
    """
    with engine.connect() as connection:
        with connection.begin():
            found = revision(connection)
        if found == head:
            return False
    from alembic.script import (
        ScriptDirectory,  # takes half a second to load, and is needed once in the life of a schema
    )

    known = {script.revision for script in ScriptDirectory(str(scripts)).walk_revisions()}
    with engine.connect() as plain, _without_foreign_keys(plain):
        connection = plain.execution_options(chainwatch_write=True)
        with connection.begin():
            found = revision(connection)  # again: another process may have been faster
            if found == head:
                return False
            if found is not None and found not in known:
                raise NewerSchema(
                    f"its schema {found} is newer than this chainwatch, which knows {head}: install the newer release "
                    "again (backups of the older schema lie beside the database)"
                )
            if found is not None and before_upgrade is not None:
                before_upgrade(connection, found)
            _upgrade(connection, head, scripts)
            if found is None:
                _first_rows(connection)
    return True


@contextmanager
def _without_foreign_keys(connection: Connection) -> Iterator[None]:
    """SQLite changes a column by making the table anew, which must not count as deleting its rows. The switch works
    outside of transactions only (https://sqlite.org/lang_altertable.html, "Making other kinds of table schema
    changes"); `_upgrade` checks the keys at the end."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


def _upgrade(connection: Connection, head: str, scripts: Path) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, head)
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise StoreError(
                f"the migration to {head} would lose rows of {broken[0]}: nothing was changed; report this"
            )


def _first_rows(connection: Connection) -> None:
    connection.execute(schema.meta.insert().values(key="instance", value=str(uuid4())))
    connection.execute(schema.leases.insert().values(id=1, holder="", epoch=0, kernel="", started=""))
