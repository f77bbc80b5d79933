"""The buttons of the page: off by default, deaf to other pages, and the same as the commands."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.model.pulse import Board
from chainwatch.store import Store
from chainwatch.web.access import Access
from chainwatch.web.forward import forward
from chainwatch.web.routes import Request, Response, Site
from chainwatch.web.server import serve_tcp, serve_unix
from tests.alerts.conftest import FakeClock
from tests.web.conftest import NOW, pulse
from tests.web.samples import EVIL_CHAIN, fill

TOKEN = "a-token-of-sixteen-or-more"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Store]:
    store = fill(tmp_path / "state")
    yield store
    store.close()


def site(store: Store, **more: object) -> Site:
    board = Board()
    board.publish(pulse())
    return Site(store, board, FakeClock(NOW), **{"actions": True, **more})  # type: ignore[arg-type]


def token(page: bytes) -> str:
    found = re.search(rb'name="token" value="([0-9a-f]{64})"', page)
    assert found
    return found[1].decode()


def press(one: Site, path: str, content: str, **headers: str) -> Response:
    return one.respond(Request("POST", path, {"content-type": FORM, **headers}, content.encode()))


def test_without_the_switch_there_are_no_buttons_and_no_press_works(full: Store) -> None:
    one = site(full, actions=False)
    assert b"<form" not in one.respond(Request("GET", "/chain/run-a")).content
    for path in ("/chain/run-a/pause", "/api/v1/chains/run-a/pause"):
        refused = press(one, path, "token=x")
        assert refused.status == 405
        assert b"actions: true" in refused.content
    assert "{action}" not in one.respond(Request("GET", "/api/v1/openapi.json")).content.decode()
    assert full.chain("run-a") is not None
    assert full.chain("run-a").desired is Desired.RUN  # type: ignore[union-attr]


def test_each_button_does_what_its_command_does(full: Store) -> None:
    one = site(full)

    def pressed(name: str, action: str, **fields: str) -> Response:
        page = one.respond(Request("GET", f"/chain/{name}")).content
        assert f"/chain/{name}/{action}".encode() in page, "only buttons that make sense are shown"
        body = "&".join(f"{key}={value}" for key, value in {"token": token(page), **fields}.items())
        return press(one, f"/chain/{name}/{action}", body)

    answer = pressed("run-a", "pause", **{"for": "8h"})
    assert (answer.status, answer.headers["Location"]) == (303, "/chain/run-a")
    chain = full.chain("run-a")
    assert chain is not None
    assert chain.desired is Desired.PAUSE
    assert chain.desired_until is not None
    assert (chain.desired_until - NOW).total_seconds() == 8 * 3600
    assert b"pause (on the status page)" in one.respond(Request("GET", "/chain/run-a")).content
    assert pressed("run-a", "resume").status == 303
    assert pressed("run-a", "observe").status == 303
    assert pressed("run-a", "act").status == 303
    assert pressed("run-a", "stop").status == 303
    chain = full.chain("run-a")
    assert chain is not None
    assert (chain.desired, chain.mode, chain.desired_until) == (Desired.STOP, Mode.ACT, None)
    assert pressed("run-b", "retry").status == 303
    chain = full.chain("run-b")
    assert chain is not None
    assert chain.retried_at == NOW
    counted = {labels["command"] for word, labels, _ in full.counters() if word == "commands"}
    assert counted == {"pause", "resume", "mode", "stop", "retry"}


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        ("", {}),
        ("token=", {}),
        ("token=" + "0" * 64, {}),
        ("token={other}", {}),
        ("token={good}", {"sec-fetch-site": "cross-site"}),
        ("token={good}", {"sec-fetch-site": "same-site"}),
    ],
)
def test_a_press_from_another_page_does_nothing(full: Store, content: str, headers: dict[str, str]) -> None:
    one = site(full)
    good = token(one.respond(Request("GET", "/chain/run-a")).content)
    other = token(one.respond(Request("GET", "/chain/run-b")).content)
    refused = press(one, "/chain/run-a/stop", content.format(good=good, other=other), **headers)
    assert refused.status == 403
    again = site(full)
    assert press(again, "/chain/run-a/stop", f"token={good}").status == 403, "another process made it"
    chain = full.chain("run-a")
    assert chain is not None
    assert chain.desired is Desired.RUN


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/chain/run-a/explode", "", 404),
        ("/chain/none/pause", "", 404),
        ("/chain/run-a~1/pause", "", 404),
        ("/chain/run-a/pause", "for=never", 400),
        ("/chain/run-a/pause", "for=900d", 400),
        ("/chain/run-a/pause", "for=%ff", 400),
        ("/chain/run-a", "", 405),
        ("/", "", 405),
        ("/chain/%ff/pause", "", 400),
        (f"/chain/{quote(EVIL_CHAIN, safe='')}/pause", "", 303),
    ],
)
def test_a_strange_press_is_answered_in_a_sentence(full: Store, path: str, content: str, status: int) -> None:
    one = site(full)
    name = EVIL_CHAIN if "evil" in path else "run-a"
    good = token(one.respond(Request("GET", f"/chain/{quote(name, safe='')}")).content)
    assert press(one, path, f"token={good}&{content}").status == status


def test_what_is_proven_done_is_not_retried(full: Store) -> None:
    from dataclasses import replace

    from chainwatch.model.verdict import Cause, Outcome
    from tests.web.samples import attempt, verdict

    ended = verdict(Outcome.DONE, Cause.COMPLETED, "final step reached")
    full.put_attempt("done & gone", replace(attempt(9, 4, 1, ended), number=1))
    full.update_chain("done & gone", state=ChainState.STOPPED)
    one = site(full, access=Access(TOKEN))
    path = f"/api/v1/chains/{quote('done & gone', safe='')}/retry"
    refused = one.respond(Request("POST", path, {"authorization": f"Bearer {TOKEN}"}))
    assert refused.status == 409
    assert "proven done" in json.loads(refused.content)["error"]


def test_a_program_needs_the_token_of_tcp_clients(full: Store) -> None:
    one = site(full, access=Access(TOKEN))
    with serve_tcp("127.0.0.1", 0, one.respond) as served:

        def ask(body: str, **headers: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
            connection.request(
                "POST", "/api/v1/chains/run-a/pause", body, {"Content-Type": "application/json", **headers}
            )
            answer = connection.getresponse()
            out = answer.status, answer.read().decode()
            connection.close()
            return out

        assert ask("{}")[0] == 401
        status, said = ask('{"for": "1h"}', Authorization=f"Bearer {TOKEN}")
        assert status == 200
        assert "paused until" in json.loads(said)["said"]
        assert ask("[1]", Authorization=f"Bearer {TOKEN}")[0] == 400
        assert ask("{" * 100_000, Authorization=f"Bearer {TOKEN}")[0] == 400


def test_a_press_is_forwarded_from_the_session_of_the_one_time_address(full: Store, tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    one = site(full)
    with serve_unix(path, one.respond):
        served, address = forward(path)
        with served:

            def ask(method: str, target: str, body: str = "", **headers: str) -> tuple[int, str, bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
                connection.request(method, target, body or None, headers)
                answer = connection.getresponse()
                out = answer.status, answer.getheader("Set-Cookie") or "", answer.read()
                connection.close()
                return out

            cookie = ask("GET", "/" + address.split("/", 3)[3])[1].split(";")[0]
            page = ask("GET", "/chain/run-a", Cookie=cookie)[2]
            form = {"Content-Type": FORM}
            body = f"token={token(page)}"
            assert ask("POST", "/chain/run-a/stop", body, **form)[0] == 401, "the token alone opens nothing"
            evil = ask("POST", "/chain/run-a/stop", body, Cookie=cookie, **{**form, "Sec-Fetch-Site": "cross-site"})
            assert evil[0] == 403
            assert ask("POST", "/chain/run-a/stop", body, Cookie=cookie, **form)[0] == 303
    chain = full.chain("run-a")
    assert chain is not None
    assert chain.desired is Desired.STOP
