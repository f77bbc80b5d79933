"""What can go wrong with the store, each as one sentence for people."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError


class StoreError(Exception):
    """The store cannot be used, or refuses. Its text is one sentence: what, why, what to do.

    Whoever meets it acts on nothing: what is not remembered must not be done.
    """


class Damaged(StoreError):
    """The file is no sound database any more. It does not mend itself: whoever meets it stops."""


class NewerSchema(StoreError):
    """The database was written by a newer chainwatch."""


class UnknownChain(StoreError):
    """No chain of that name is registered."""


class ChainExists(StoreError):
    """A chain of that name is registered already."""


class AttemptTaken(StoreError):
    """Another chain has this attempt: one job belongs to one chain."""


class IntentOpen(StoreError):
    """The chain already has a submission whose outcome is not known: a second one could start a second job."""


class IntentClosed(StoreError):
    """The intent was closed meanwhile (the chain was forgotten, another owner settled it): do not try its effect."""


class LeaseHeld(StoreError):
    """Another daemon owns this state directory."""

    def __init__(self, holder: str, until: datetime) -> None:
        super().__init__(
            f"another chainwatch ({holder}) watches with this state directory until {until:%Y-%m-%d %H:%M:%S} UTC and "
            "renews that: stop it, or use another state directory"
        )
        self.holder = holder
        self.until = until


class LeaseLost(StoreError):
    """The lease is not ours any more: stop, and change nothing outside."""


_SQLITE = {
    sqlite3.SQLITE_FULL: "the disk is full: make room and start again",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore the newest backup (chainwatch backup makes them)",
    sqlite3.SQLITE_NOTADB: "the file is not a database, or damaged: restore the newest backup",
    sqlite3.SQLITE_READONLY: "it is read-only here: give this user write access to the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that the directory exists and this user may write there",
    sqlite3.SQLITE_PERM: "access is denied: check the owner and mode of the state directory",
    sqlite3.SQLITE_AUTH: "access is denied: check the owner and mode of the state directory",
    sqlite3.SQLITE_BUSY: "another process has kept it locked: see who holds it with `lsof`, and try again",
    sqlite3.SQLITE_LOCKED: "another process has kept it locked: see who holds it with `lsof`, and try again",
    sqlite3.SQLITE_IOERR: "the storage gave an input/output error: check disk space, quota and the file system",
    sqlite3.SQLITE_PROTOCOL: "file locks do not work there: put the state directory on another file system",
    sqlite3.SQLITE_NOLFS: "the file system cannot hold a file this large",
}


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def translated(error: BaseException, where: str) -> StoreError:
    """The store error that says in one sentence what a database error means and what to do. `where` names the database
    without its password."""
    if isinstance(error, StoreError):
        return error
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int) and not isinstance(error, IntegrityError):
        means = _SQLITE.get(code & 0xFF)
        if means:
            kind = Damaged if code & 0xFF in _DAMAGED else StoreError
            return kind(f"the database {where} cannot be used: {means} ({cause})")
    if isinstance(cause, OSError):
        reason = (cause.strerror or str(cause)).lower()
        return StoreError(f"the database {where} cannot be used: {reason}; look at space and rights there")
    what = " ".join(str(cause).split()) or type(error).__name__
    if isinstance(error, DBAPIError) and (error.connection_invalidated or "connect" in what.lower()):
        return StoreError(f"the database {where} does not answer: {what}")
    return StoreError(f"the database {where} refused: {what}")


DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error)
"""What the drivers may raise while a database is used."""
