"""A private PostgreSQL server: the distribution's programs, an own directory and socket, no TCP port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import Self
from urllib.parse import quote


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def missing() -> str:
    """Why no server can be started here; empty if it can."""
    if _programs() is None:
        return "no initdb on this machine (apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ModuleNotFoundError:
        return "no psycopg (pip install 'chainwatch[postgresql]')"
    return ""


class Server:
    """Started on entry, stopped on exit. As root it runs as `nobody`, since PostgreSQL refuses root."""

    def __enter__(self) -> Self:
        programs = _programs()
        assert programs is not None
        self._programs, self._count = programs, count(1)
        self.root = Path(tempfile.mkdtemp(prefix="chainwatch-pg-"))  # short: a socket's path has 107 bytes
        self.data = self.root / "data"
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user:
            os.chown(self.root, self._user.pw_uid, self._user.pw_gid)
        try:
            self._run(
                "initdb", "-D", str(self.data), "-U", "chainwatch", *["-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
            )
            self._options = f"-k {self.root} -c listen_addresses='' -c fsync=off -c max_connections=40"
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self._control("stop", "-w", "-m", "immediate")

    def start(self) -> None:
        self._control("start", "-w", "-l", str(self.root / "log"), "-o", self._options)

    def _control(self, what: str, *options: str) -> None:
        self._run("pg_ctl", what, "-D", str(self.data), *options)

    def new_database(self) -> str:
        """The URL of an empty database: a schema of its own, which takes no time to make and to drop."""
        import psycopg

        name = f"s{next(self._count)}"
        with psycopg.connect(host=str(self.root), user="chainwatch", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"postgresql://chainwatch@/postgres?host={quote(str(self.root), safe='')}&options=-csearch_path%3D{name}"

    def _run(self, program: str, *arguments: str) -> None:
        identity = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self.root)}
        with tempfile.TemporaryFile() as errors:  # not a pipe: the server that pg_ctl starts would keep it open
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=120,
                **identity,  # type: ignore[arg-type]
            )
            errors.seek(0)
            assert done.returncode == 0, f"{program}: {errors.read().decode(errors='replace')}"
