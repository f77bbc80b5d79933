"""A real HTTP server that misbehaves on request, a virtual clock, and the outbox in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chainwatch.alerts import Kind, body
from chainwatch.store.records import Notice

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@dataclass
class FakeClock:
    """Virtual time: it moves when it is told to."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def forward(self, **delta: float) -> None:
        self.at += timedelta(**delta)


@dataclass
class Server:
    """A webhook's other side. `script` says how the next requests are answered; after it each gets 200 and `ok`."""

    port: int
    script: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    reply: bytes = b"ok"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/verysecret"

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(data) for _, _, _, data in self.requests if data]


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server(0)
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.requests.append((self.command, self.path, dict(self.headers), data))
            step = state.script.pop(0) if state.script else {}
            if step.get("stall"):
                over.wait(20)
                return
            if step.get("hang_up"):
                self.connection.close()
                return
            self.send_response(step.get("status", 200))
            for name, value in step.get("headers", {}).items():
                self.send_header(name, value)
            content = step.get("body", state.reply)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if step.get("dribble"):
                for byte in content:
                    if over.wait(0.1):
                        return
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                return
            self.wfile.write(content)

        do_GET = do_POST

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, ValueError):
                pass

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    state.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield state
    over.set()
    httpd.shutdown()
    httpd.server_close()
    thread.join(5)


@dataclass
class MemoryOutbox:
    """The store's outbox, in memory and JSON-strict where the store is."""

    rows: dict[int, Notice] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    memory: dict[str, str] = field(default_factory=dict)
    bumped: dict[str, float] = field(default_factory=dict)

    def owe(self, chain: str | None, key: str, severity: str, title: str, said: dict[str, str], now: datetime) -> bool:
        if any(n.key == key and n.id not in self.over for n in self.rows.values()):
            return False
        number = len(self.rows) + 1
        self.rows[number] = Notice(number, chain, key, severity, title, said, now)
        return True

    def recover(self, key: str) -> None:
        self.over |= {n.id for n in self.rows.values() if n.key == key}

    def undelivered(self) -> list[Notice]:
        return [n for n in self.rows.values() if n.delivered is None]

    def active_notices(self, chain: str | None = None) -> list[Notice]:
        return [n for n in self.rows.values() if n.id not in self.over and chain in (None, n.chain)]

    def delivered(self, notice_id: int, now: datetime) -> None:
        self.rows[notice_id] = replace(self.rows[notice_id], delivered=now, next_try=None, last_error="")

    def failed(self, notice_id: int, now: datetime, error: str, next_try: datetime) -> None:
        assert next_try >= now
        row = self.rows[notice_id]
        self.rows[notice_id] = replace(row, tries=row.tries + 1, last_error=error, next_try=next_try)

    def bump(self, name: str, labels: Any, by: float = 1) -> None:
        self.bumped[name] = self.bumped.get(name, 0) + by

    def remember(self, key: str, value: Any) -> None:
        self.memory[key] = json.dumps(value)

    def recall(self, key: str) -> Any:
        return json.loads(self.memory[key]) if key in self.memory else None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def outbox() -> MemoryOutbox:
    return MemoryOutbox()


@pytest.fixture
def url_file(tmp_path: Path, server: Server) -> Path:
    file = tmp_path / "url"
    file.write_text(server.url)
    file.chmod(0o600)
    return file


def person(why: str = "the disk quota is full") -> dict[str, str]:
    return body(
        Kind.PERSON,
        what="attempt 7 (job 4711) failed",
        why=why,
        line="OSError: [Errno 122] Disk quota exceeded",
        source="/logs/4711.out:812",
        wants="Free some space, then let it go on.",
        command="chainwatch retry run-a",
    )


def wait_until(condition: Any, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
