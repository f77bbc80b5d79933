"""A real HTTP server that misbehaves on request, a virtual clock, and the outbox in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chainwatch.alerts import Kind, body
from chainwatch.model.chain import Mode
from chainwatch.store import Store, open_store
from chainwatch.store.records import ChainRecord, Notice, Origin

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@dataclass
class FakeClock:
    """Virtual time: it moves when it is told to."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> bool:
        self.at += timedelta(seconds=seconds)
        return False

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


class StoreOutbox:
    """The real store, with the few words that the tests speak."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock = store, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def owe(self, chain: str | None, key: str, severity: str, title: str, said: dict[str, str], now: datetime) -> bool:
        if chain is not None and self.store.chain(chain) is None:
            self.store.add_chain(ChainRecord(chain, "c1", Origin.CONFIG, Mode.ACT, {}, now))
        return self.store.owe(chain, key, severity, title, said, now)

    def recover(self, key: str) -> None:
        assert self.store.recover(key, self.clock.at)

    def undelivered(self) -> list[Notice]:
        return self.store.undelivered()

    def active_notices(self, chain: str | None = None) -> list[Notice]:
        return self.store.active_notices(chain)

    def delivered(self, notice_id: int, now: datetime) -> None:
        self.store.delivered(notice_id, now)

    def failed(self, notice_id: int, now: datetime, error: str, next_try: datetime) -> None:
        self.store.failed(notice_id, now, error, next_try)

    def bump(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        self.store.bump(name, labels, by)

    def remember(self, key: str, value: Any) -> None:
        self.store.remember(key, value)

    def recall(self, key: str) -> Any:
        return self.store.recall(key)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def outbox(tmp_path: Path, clock: FakeClock) -> Iterator[StoreOutbox]:
    store = open_store(tmp_path / "state")
    yield StoreOutbox(store, clock)
    store.close()


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
