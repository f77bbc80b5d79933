"""The store as one object, and how it is opened and backed up."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import URL, Connection, Engine

from chainwatch.model.plain_file import gives_way
from chainwatch.store import schema
from chainwatch.store.attempts import Attempts
from chainwatch.store.chains import Chains
from chainwatch.store.engine import FILE_NAME, choose_journal, database_url, make_engine, shown
from chainwatch.store.errors import DATABASE_ERRORS, Damaged, StoreError, translated
from chainwatch.store.intents import Intents
from chainwatch.store.journal import Journal
from chainwatch.store.leases import Leases, owner_at_work
from chainwatch.store.memory import Memory
from chainwatch.store.migrate import migrate
from chainwatch.store.nodes import Nodes
from chainwatch.store.notices import Notices
from chainwatch.store.track import Track


class Store(Leases, Chains, Attempts, Intents, Notices, Nodes, Journal, Track, Memory):
    """What chainwatch remembers. Every method is one transaction, or joins the one that is under way.

    Every error is a StoreError: whoever meets one changes nothing outside.
    """

    def __init__(self, engine: Engine, where: str, file: Path | None) -> None:
        super().__init__(engine, where)
        self.file = file
        """The SQLite file; None for PostgreSQL."""
        with self._reading() as connection:
            query = select(schema.meta.c.value).where(schema.meta.c.key == "instance")
            self.instance: str = connection.execute(query).scalar_one()
        """A UUID that names this state; it stands in the comments of its jobs."""

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()

    def verify(self) -> None:
        """Read the whole database and check its structure; a damaged one is a StoreError. For the daemon's start:
        seconds for a gigabyte."""
        if self.file is None:
            return
        with self._reading() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise Damaged(
                f"the database {self.where} is damaged ({found}): restore the newest backup (chainwatch backup makes "
                "them)"
            )

    def backup(self, path: Path) -> Path:
        """Write a consistent, checked copy to `path` (a file, or a directory to put `chainwatch-TIME.db` into), while
        others go on writing. An earlier copy of that name is replaced, by a rename; anything else stays, and is a
        `StoreError`. Returns the file's path."""
        if self.file is None:
            raise StoreError("backups of PostgreSQL are made with pg_dump: `pg_dump --format=custom NAME > FILE`")
        if path.is_dir():
            path = path / f"chainwatch-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"
        if path.exists() and path.samefile(self.file):
            raise StoreError(f"{path} is the database itself: choose another file for the backup")
        try:
            gives_way(path, lambda head: head.startswith(b"SQLite format 3\0"))
        except OSError as error:
            if isinstance(error, FileExistsError) or path.exists():
                raise StoreError(
                    f"{path} is no earlier backup, so it is left as it is: choose another file for the backup"
                ) from None
        return _copy(self.file, path)


def open_store(state_dir: Path, url: str | None = None, *, create: bool = True) -> Store:
    """The store of a state directory (made with mode 0700), or of the database at `url`; its schema is made or brought
    up to date. With `create` False nothing is made: a state directory without a database is a StoreError.

    A damaged, full, read-only or newer database, one of something else, and one that does not answer are StoreErrors
    that say what to do.
    """
    target = database_url(state_dir, url)
    where = shown(target)
    file = Path(str(target.database)) if target.get_backend_name() == "sqlite" else None
    if file is not None:
        if not create and not file.exists():
            raise StoreError(
                f"there is no state at {file.parent}: nothing was ever registered there (`chainwatch submit` begins a "
                "chain; --state names another directory)"
            )
        _private_directory(file.parent)
        with _told(where):
            _exists_or_is_made(file)
    engine = make_engine(target)
    try:
        with _told(where):
            if file is not None:
                choose_journal(engine, file)
            migrate(engine, before_upgrade=lambda connection, old: _before_upgrade(connection, file, old))
        return Store(engine, where, file)
    except BaseException:
        engine.dispose()
        raise


def _exists_or_is_made(file: Path) -> None:
    """A new database appears whole, by a rename. So an empty file is never a beginning: it is one that was cut, and
    to begin anew in its place would forget every chain in silence."""
    if file.exists():
        if file.stat().st_size == 0:
            raise StoreError("it was cut to nothing: restore the newest backup, or delete the file to begin anew")
        return
    with _temporary(file) as new:
        engine = make_engine(URL.create("sqlite", database=str(new)))
        try:
            migrate(engine)
        finally:
            engine.dispose()
        try:
            os.link(new, file)
        except FileExistsError:
            pass  # another process was faster: its database counts
        except OSError:  # no hard links there (CIFS, some FUSE)
            if not file.exists():
                os.rename(new, file)


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise type(error)(f"the database {where} cannot be used: {error}") from error.__cause__
    except (*DATABASE_ERRORS, OSError) as error:
        raise translated(error, where) from error


def _before_upgrade(connection: Connection, file: Path | None, old: str) -> None:
    """An older daemon that is at work must not find another schema under its feet; and a copy of the old is kept."""
    owner = owner_at_work(connection, datetime.now(UTC))
    if owner:
        raise StoreError(f"the daemon {owner} still works with its older schema {old}: stop it, then try again")
    if file is not None:
        _copy(file, file.with_name(f"{file.name}.schema-{old}"))


def _private_directory(path: Path) -> None:
    """Make the state directory, or see that an existing one is the user's own and closed to others."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise StoreError(
            f"the state directory {path} cannot be made ({error.strerror}): choose another one with `state:`"
        ) from None
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"the state directory {path} belongs to another user (uid {found.st_uid}): run as that user, or choose "
            "another directory with `state:`"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        with os.scandir(path) as entries:
            names = {entry.name for entry in entries}
        if names and FILE_NAME not in names and found.st_mode & 0o022:
            raise StoreError(f"others may write to {path}: choose a directory of chainwatch's own with `state:`")
        if not names or FILE_NAME in names:
            path.chmod(0o700)


def _copy(source: Path, target: Path) -> Path:
    """A consistent, checked copy of an SQLite database under a temporary name, then renamed."""
    existing = f"{source.resolve().as_uri()}?mode=rw"
    try:
        with _temporary(target) as name:
            with closing(sqlite3.connect(existing, uri=True)) as old, closing(sqlite3.connect(name)) as new:
                old.backup(new)
                new.execute("PRAGMA journal_mode=DELETE")  # one file, whole in itself
                found: Any = new.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreError(f"the database {source} is damaged ({found}): this backup was not kept")
            with open(name, "rb") as written:
                os.fsync(written.fileno())
            os.replace(name, target)
    except (sqlite3.Error, OSError) as error:
        raise translated(error, f"{source} (backup to {target})") from error
    return target


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """An empty file beside `target` (mode 0600), gone at the end whatever happens."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
