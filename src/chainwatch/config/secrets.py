"""Secrets are named in a configuration, never written there: by a file that only the owner can read, or a variable.

They are read when they are used, so a rotated one needs no restart, and held nowhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from chainwatch.model.plain_file import open_plain


class SecretUnusable(Exception):
    """A secret is missing or others could read it. The sentence names where it should be, never what it is."""


def read_secret(file: Path | None, variable: str | None, what: str) -> str:
    """The secret from `file` (owned by this user or root, no access for group or others) or from `variable`.

    `what` is its name in sentences (`the URL of channel team`). Raises `SecretUnusable`.
    """
    if file is not None:
        return _from_file(file, what)
    value = os.environ.get(variable or "", "").strip()
    if not value:
        raise SecretUnusable(f"{what}: the environment variable {variable} is not set or empty")
    return value


def _from_file(file: Path, what: str) -> str:
    try:
        handle = open_plain(file)
    except OSError as error:
        raise SecretUnusable(f"{what}: cannot open {file}: {error.strerror}") from error
    try:
        found = os.fstat(handle)
        if found.st_uid not in {0, os.geteuid()}:
            raise SecretUnusable(f"{what}: {file} belongs to uid {found.st_uid}; it must be yours")
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise SecretUnusable(f"{what}: others can read {file} (mode {mode:04o}); run: chmod 600 {file}")
        content = os.read(handle, 65536)
    finally:
        os.close(handle)
    try:
        value = content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise SecretUnusable(f"{what}: {file} is not text") from error
    if not value:
        raise SecretUnusable(f"{what}: {file} is empty")
    return value
