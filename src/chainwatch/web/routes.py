"""From a request to an answer: one function, without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from pydantic import BaseModel

from chainwatch.model.chain import Attempt, Decision, ExcludedNode
from chainwatch.model.clock import Clock
from chainwatch.model.pulse import Board
from chainwatch.store import StoreError
from chainwatch.store.records import ChainRecord, Notice
from chainwatch.web import api, metrics, openapi, pages
from chainwatch.web.access import Access
from chainwatch.web.view import Reads, look

CSP = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SAFETY = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class History(Reads, Protocol):
    """What the pages need of the store. Methods of the same names there."""

    def chain(self, name: str) -> ChainRecord | None: ...
    def attempts(self, chain: str, last: int | None = None) -> Sequence[Attempt]: ...
    def decisions(
        self, chain: str, last: int | None = None
    ) -> Sequence[tuple[datetime, int | None, Decision, str]]: ...
    def active_notices(self, chain: str | None = None) -> list[Notice]: ...
    def excluded(self, now: datetime, chain: str | None = None) -> Sequence[ExcludedNode]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    kind: str
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Site:
    """The status page of one daemon. `access` None: whoever reaches the socket may read (its mode decides)."""

    def __init__(
        self,
        store: History,
        board: Board,
        clock: Clock,
        *,
        access: Access | None = None,
        open_metrics: bool = False,
        max_chains: int = 200,
    ) -> None:
        self._store, self._board, self._clock = store, board, clock
        self._access, self._open_metrics, self._max_chains = access, open_metrics, max_chains
        self._routes: Mapping[str, Callable[[Request], Response]] = {
            "/": self._overview,
            "/style.css": self._style,
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/api/v1/chains": self._chains,
            "/api/v1/alerts": self._alerts,
            "/api/v1/openapi.json": lambda _: _json(200, openapi.document()),
        }

    def respond(self, request: Request) -> Response:
        """The answer. Never raises: what goes wrong is an answer too, without details for strangers."""
        try:
            response = self._respond(request)
        except StoreError as error:
            response = self._problem(request, 503, str(error))
        except Exception:  # noqa: BLE001 - one request's bug must not end the thread without an answer
            structlog.get_logger("chainwatch.web").error("a request broke", path=request.target[:200], exc_info=True)
            response = self._problem(request, 500, "this is a bug in chainwatch; its log says more")
        return Response(response.status, response.kind, response.content, {**SAFETY, **response.headers})

    def _respond(self, request: Request) -> Response:
        if request.method not in {"GET", "HEAD"}:
            answer = self._problem(request, 405, "this page only reads")
            return Response(answer.status, answer.kind, answer.content, {"Allow": "GET, HEAD"})
        try:
            parts = urlsplit(request.target)
            path = unquote(parts.path, errors="strict")
            query = parse_qs(parts.query, max_num_fields=20, errors="strict")
        except ValueError:
            return self._problem(request, 400, "the address cannot be read")
        if self._access is not None and not (path == "/metrics" and self._open_metrics):
            if path == "/" and (cookie := self._access.open(query.get("token", [""])[-1])):
                return Response(303, "text/plain", b"", {"Location": "/", "Set-Cookie": cookie})
            if not self._access.allows(request.headers):
                answer = self._problem(request, 401, "a token is needed: `chainwatch web` opens the page with one")
                return Response(answer.status, answer.kind, answer.content, {"WWW-Authenticate": "Bearer"})
        if path in self._routes:
            return self._routes[path](request)
        for prefix, show in (("/chain/", self._chain_page), ("/api/v1/chains/", self._chain_json)):
            if parts.path.startswith(prefix) and "/" not in parts.path[len(prefix) :]:
                return self._with_chain(request, path[len(prefix) :], query, show)
        return self._problem(request, 404, "there is no such page")

    def _with_chain(
        self,
        request: Request,
        name: str,
        query: Mapping[str, list[str]],
        show: Callable[[ChainRecord, int], Response],
    ) -> Response:
        given = query.get("last", ["50"])
        if len(given) != 1 or not given[0].isascii() or not given[0].isdigit() or not 1 <= int(given[0][:5]) <= 1000:
            return self._problem(request, 400, "last is a number from 1 to 1000")
        chain = None if "~" in name else self._store.chain(name)
        if chain is None:
            return self._problem(request, 404, "there is no such chain")
        return show(chain, int(given[0]))

    def _overview(self, _: Request) -> Response:
        view = look(self._store, self._clock.now(), self._board.pulse)
        return _html(200, pages.overview(view, self._store.active_notices()))

    def _chain_page(self, chain: ChainRecord, last: int) -> Response:
        now = self._clock.now()
        return _html(
            200,
            pages.chain_page(
                look(self._store, now, self._board.pulse),
                chain,
                self._store.attempts(chain.name, last),
                self._store.decisions(chain.name, last),
                self._store.excluded(now, chain.name),
                self._store.active_notices(chain.name),
            ),
        )

    def _chain_json(self, chain: ChainRecord, last: int) -> Response:
        detail = api.ChainDetail(
            chain=api.chain_out(chain),
            attempts=[api.attempt_out(one) for one in self._store.attempts(chain.name, last)],
            decisions=[api.decision_out(row) for row in self._store.decisions(chain.name, last)],
            excluded=[api.node_out(one) for one in self._store.excluded(self._clock.now(), chain.name)],
            alerts=[api.alert_out(one) for one in self._store.active_notices(chain.name)],
        )
        return _model(200, detail)

    def _chains(self, _: Request) -> Response:
        return _json(200, [api.chain_out(one).model_dump(mode="json") for one in self._store.chains()])

    def _alerts(self, _: Request) -> Response:
        return _json(200, [api.alert_out(one).model_dump(mode="json") for one in self._store.active_notices()])

    def _metrics(self, request: Request) -> Response:
        wants = "application/openmetrics-text" in request.headers.get("accept", "")
        view = look(self._store, self._clock.now(), self._board.pulse)
        text = metrics.render(view, max_chains=self._max_chains, open_metrics=wants)
        return Response(200, metrics.OPENMETRICS if wants else metrics.TEXT, text)

    def _healthz(self, _: Request) -> Response:
        """The loop turns. A server thread that answers proves nothing by itself."""
        pulse, now = self._board.pulse, self._clock.now()
        if pulse is None:
            return _health("the loop has not turned yet")
        return _health("" if pulse.alive(now) else f"the loop has not turned since {pulse.at:%Y-%m-%d %H:%M:%S} UTC")

    def _readyz(self, _: Request) -> Response:
        """The loop turns, and the polls are fresh."""
        pulse, now = self._board.pulse, self._clock.now()
        if pulse is None or not pulse.alive(now):
            return self._healthz(_)
        return _health(pulse.blind(now))

    def _style(self, _: Request) -> Response:
        content = files("chainwatch.web").joinpath("style.css").read_bytes()
        return Response(200, "text/css; charset=utf-8", content, {"Cache-Control": "max-age=300"})

    def _problem(self, request: Request, status: int, sentence: str) -> Response:
        path = request.target.split("?")[0]
        if path.startswith(("/api/", "/healthz", "/readyz", "/metrics")):
            return _model(status, api.Problem(error=sentence))
        return _html(status, pages.problem_page(status, sentence))


def _health(why: str) -> Response:
    return _model(503 if why else 200, api.Health(ok=not why, why=why))


def _html(status: int, page: str) -> Response:
    return Response(status, "text/html; charset=utf-8", page.encode("utf-8", "replace"))


def _model(status: int, model: BaseModel) -> Response:
    return _json(status, model.model_dump(mode="json"))


def _json(status: int, value: Any) -> Response:
    return Response(status, "application/json", json.dumps(value, allow_nan=False).encode())
