"""One request to a server that fails, stalls, redirects, limits, lies, or is gone."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.alerts.channel import Told, TryLater, Unwelcome
from chainwatch.alerts.http_post import Reply, Target, Unreachable, judged, request
from tests.alerts.conftest import START, Server


def ask(server: Server, seconds: float = 5, **more: object) -> Reply:
    target = Target(server.url, timedelta(seconds=seconds))
    return request(replace(target, **more), "POST", b"{}", {}, START)  # type: ignore[arg-type]


def test_an_answer_is_read(server: Server) -> None:
    assert ask(server) == Reply(200, "ok", None)
    assert server.requests[0][1] == "/services/verysecret"


@pytest.mark.parametrize("kind", ["stall", "dribble"])
def test_the_deadline_holds_for_the_whole_exchange(server: Server, kind: str) -> None:
    server.script = [{kind: True, "body": b"x" * 200}]
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not answer within 0\.5 s") as caught:
        ask(server, 0.5)
    assert time.monotonic() - begun < 3
    assert "verysecret" not in str(caught.value)


def test_the_deadline_holds_in_a_handshake_that_never_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target(f"https://127.0.0.1:{silent.getsockname()[1]}/x", timedelta(seconds=0.5))
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer"):
            request(target, "POST", b"", {}, START)
        assert time.monotonic() - begun < 3


def test_no_timer_outlives_its_request(server: Server) -> None:
    before = threading.active_count()
    ask(server, 30)
    time.sleep(0.1)
    assert threading.active_count() <= before + 1  # the server's own handler


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_keeps_the_message(server: Server, status: int) -> None:
    server.script = [{"status": status, "headers": {"Location": "/elsewhere"}}]
    assert ask(server).status == 200
    assert [(r[0], r[1], r[3]) for r in server.requests] == [
        ("POST", "/services/verysecret", b"{}"),
        ("POST", "/elsewhere", b"{}"),
    ]


@pytest.mark.parametrize(
    "location", ["http://localhost:{port}/x", "https://127.0.0.1:{port}/x", "//127.0.0.1:1/x", "file:///etc/passwd"]
)
def test_a_redirect_to_another_server_or_scheme_is_refused(server: Server, location: str) -> None:
    server.script = [{"status": 307, "headers": {"Location": location.format(port=server.port)}}]
    with pytest.raises(Unreachable):
        ask(server)
    assert len(server.requests) == 1


def test_a_redirect_that_would_drop_the_message_is_not_followed(server: Server) -> None:
    server.script = [{"status": 302, "headers": {"Location": "/login"}}]
    answer = judged(ask(server), "host")
    assert isinstance(answer, TryLater)
    assert "moved" in answer.why
    assert len(server.requests) == 1


def test_a_redirect_in_circles_ends(server: Server) -> None:
    server.script = [{"status": 307, "headers": {"Location": "/services/verysecret"}} for _ in range(9)]
    with pytest.raises(Unreachable, match="circles"):
        ask(server)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), ("Mon, 02 Mar 2026 08:05:00 GMT", 300), ("Mon, 02 Mar 2020 08:05:00 GMT", None), ("soon", None)],
)
def test_retry_after_is_read_as_seconds_and_as_a_date(server: Server, header: str, seconds: int | None) -> None:
    server.script = [{"status": 429, "headers": {"Retry-After": header}}]
    answer = judged(ask(server), "host")
    assert isinstance(answer, TryLater)
    assert answer.after == (None if seconds is None else timedelta(seconds=seconds))


def test_proxies_of_the_environment_are_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ask(server).status == 200


def test_a_named_proxy_is_used(server: Server) -> None:
    target = Target("http://chat.invalid/hook", proxy=f"http://127.0.0.1:{server.port}")
    assert request(target, "POST", b"{}", {}, START).status == 200
    assert server.requests[0][1] == "http://chat.invalid/hook"
    assert server.requests[0][2]["Host"] == "chat.invalid"


def test_a_server_that_hangs_up_or_is_gone_is_unreachable(server: Server) -> None:
    server.script = [{"hang_up": True}]
    with pytest.raises(Unreachable, match="no connection"):
        ask(server)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(Unreachable, match="Connection refused"):
        request(Target(f"http://127.0.0.1:{port}/verysecret"), "POST", b"", {}, START)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "hooks.example.org/x",
        "https://",
        "http://h/a b",
        "http://[::1/x",
        "http://h:99999/",
        "http://h/\nx",
    ],
)
def test_what_is_no_web_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(Unreachable) as caught:
        request(Target(url), "POST", b"", {}, START)
    assert url not in str(caught.value) or len(url) < 9


def test_only_hosts_that_the_site_allows_are_asked(server: Server) -> None:
    assert ask(server, allowed_hosts=("127.0.0.1",)).status == 200
    with pytest.raises(Unreachable, match="site does not allow alerts to 127"):
        ask(server, allowed_hosts=("*.example.org",))


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    pair = tmp_path / "pair.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*make.split(), "-keyout", pair, "-out", tmp_path / "crt.pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt.pem", pair)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                try:
                    with context.wrap_socket(connection, server_side=True) as tls:
                        tls.recv(65536)
                        tls.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
                except (ssl.SSLError, ConnectionError):
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"https://localhost:{port}/x"
        with pytest.raises(Unreachable, match="certificate of localhost is not valid"):
            request(Target(url), "POST", b"", {}, START)
        assert request(Target(url, ca_file=tmp_path / "crt.pem"), "POST", b"", {}, START).text == "ok"
        thread.join(5)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(200, "ok", None), Told),
        (Reply(200, "<html>Log in to the guest network", None), TryLater),
        (Reply(400, "invalid_blocks", None), Unwelcome),
        (Reply(404, "no_service", None), TryLater),
        (Reply(500, "", None), TryLater),
        (Reply(503, "", timedelta(seconds=9)), TryLater),
    ],
)
def test_an_answer_is_judged_honestly(reply: Reply, expected: type) -> None:
    assert isinstance(judged(reply, "host", "ok"), expected)
