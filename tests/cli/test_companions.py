"""What runs beside the loop."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.cli.companions import BesideTheLoop
from chainwatch.config.models import Config
from chainwatch.model.pulse import Board
from chainwatch.store import Store, open_store
from tests.alerts.conftest import FakeClock, Server, server, wait_until
from tests.web.conftest import NOW, chain, pulse
from tests.web.test_site import Unix

__all__ = ["server"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "state")
    store.add_chain(chain("run-a"))
    yield store
    store.close()


def private(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def config(tmp_path: Path, **more: object) -> Config:
    return Config.model_validate({"state": str(tmp_path / "state"), **more})


def test_page_metrics_file_and_heartbeat_follow_the_loop(store: Store, tmp_path: Path, server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = config(
        tmp_path,
        web={
            "listen": f"127.0.0.1:{port}",
            "token_file": private(tmp_path / "token", "a-token-of-sixteen-characters"),
            "textfile": str(tmp_path / "c.prom"),
        },
        alerts={"heartbeat": {"url_file": private(tmp_path / "url", server.url), "every": "1m"}},
    )
    clock = FakeClock(NOW)
    beside = BesideTheLoop(settings, store, Board(), clock=clock)
    try:
        unix = Unix(tmp_path / "state" / "web.sock")
        unix.request("GET", "/readyz")
        assert unix.getresponse().status == 503, "nothing turned yet"
        unix.close()
        beside.turn(pulse())
        wait_until(lambda: (tmp_path / "c.prom").exists() and server.requests)
        assert "chainwatch_blind 0.0" in (tmp_path / "c.prom").read_text()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Authorization": "Bearer a-token-of-sixteen-characters"}
        )
        assert b'chain="run-a"' in urllib.request.urlopen(request, timeout=5).read()
        clock.forward(hours=1)
        beside.turn(pulse(at=clock.now(), polls=()))
        wait_until(lambda: "chainwatch_blind 1.0" in (tmp_path / "c.prom").read_text())
        assert len(server.requests) == 1, "a blind daemon sends no heartbeat"
    finally:
        beside.close()
    assert not (tmp_path / "state" / "web.sock").exists()


def test_what_cannot_be_served_does_not_stop_the_daemon(store: Store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = config(
            tmp_path,
            web={
                "socket": str(tmp_path / "gone" / "web.sock"),
                "listen": f"127.0.0.1:{taken.getsockname()[1]}",
                "token_file": private(tmp_path / "token", "a-token-of-sixteen-characters"),
                "textfile": str(tmp_path / "gone" / "c.prom"),
            },
        )
        beside = BesideTheLoop(settings, store, Board(), clock=FakeClock(NOW))
        beside.turn(pulse())
        beside.close()


def test_a_page_can_be_switched_off(store: Store, tmp_path: Path) -> None:
    beside = BesideTheLoop(
        config(tmp_path, web={"socket": "off"}), store, Board(), clock=FakeClock(NOW + timedelta(days=1))
    )
    beside.close()
    assert not (tmp_path / "state" / "web.sock").exists()


def test_a_single_pass_writes_its_metrics_and_beats_before_it_ends(
    store: Store, tmp_path: Path, server: Server
) -> None:
    settings = config(
        tmp_path,
        web={"textfile": str(tmp_path / "c.prom")},
        alerts={"heartbeat": {"url_file": private(tmp_path / "url", server.url)}},
    )
    beside = BesideTheLoop(settings, store, Board(), clock=FakeClock(NOW), page=False)
    beside.turn(pulse())
    beside.close()
    assert (tmp_path / "c.prom").exists()
    assert len(server.requests) == 1
    assert not (tmp_path / "state" / "web.sock").exists()
