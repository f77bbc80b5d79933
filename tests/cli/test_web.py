"""The page by command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from chainwatch.cli.web import web
from chainwatch.store import open_store
from chainwatch.web.routes import Response
from chainwatch.web.server import serve_unix

app = typer.Typer()
app.command()(web)


def test_without_a_daemon_it_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--socket", str(tmp_path / "none")])
    assert (done.exit_code, "does the daemon run" in done.output) == (2, True)


def test_a_socket_of_a_daemon_elsewhere_is_told_with_its_place(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    store.acquire_lease("login7:4711", timedelta(minutes=5), datetime.now(UTC))
    store.close()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "state" / "web.sock"))
    dead.close()
    done = CliRunner().invoke(app, ["--state", str(tmp_path / "state")])
    assert done.exit_code == 2
    assert "connection refused" in done.output
    assert "the daemon is login7:4711" in done.output


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_it_prints_an_address_that_works_and_ends_with_a_signal(tmp_path: Path, more: list[str]) -> None:
    code = "import typer; from chainwatch.cli.web import web; app = typer.Typer(); app.command()(web); app()"
    with serve_unix(tmp_path / "s", lambda request: Response(200, "text/plain", request.target.encode())):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "--socket", str(tmp_path / "s"), *more],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ),
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        address = json.loads(line)["address"] if more else line
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
        assert opener.open(address, timeout=10).read() == b"/"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        process.stdout.close()
