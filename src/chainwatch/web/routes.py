"""From a request to an answer: one function, without sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from pydantic import BaseModel

from chainwatch.model.clock import Clock
from chainwatch.model.pulse import Board
from chainwatch.store import Store, StoreError
from chainwatch.store.records import ChainRecord
from chainwatch.web import api, metrics, openapi, pages
from chainwatch.web.access import Access
from chainwatch.web.buttons import Buttons, Refused, grant
from chainwatch.web.view import look
from chainwatch.web.words import path_of

CSP = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
SAFETY = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    content: bytes = b""
    """The body of a POST."""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    kind: str
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Site:
    """The status page of one daemon. `access` None: whoever reaches the socket may read (its mode decides). `actions`:
    whoever may read may also press its buttons."""

    def __init__(
        self,
        store: Store,
        board: Board,
        clock: Clock,
        *,
        access: Access | None = None,
        open_metrics: bool = False,
        max_chains: int = 200,
        actions: bool = False,
    ) -> None:
        self._buttons = Buttons() if actions else None
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
            "/api/v1/openapi.json": lambda _: _json(200, openapi.document(actions=actions)),
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
        if request.method not in {"GET", "HEAD"} and (request.method != "POST" or self._buttons is None):
            return self._only_reads(request)
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
        if request.method == "POST":
            return self._press(request, parts.path)
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
        show: Callable[[ChainRecord, int, bool], Response],
    ) -> Response:
        given = query.get("last", ["50"])
        if len(given) != 1 or not given[0].isascii() or not given[0].isdigit() or not 1 <= int(given[0][:5]) <= 1000:
            return self._problem(request, 400, "last is a number from 1 to 1000")
        chain = self._chain(name)
        if chain is None:
            return self._problem(request, 404, "there is no such chain")
        return show(chain, int(given[0]), "fresh" in query)

    def _chain(self, name: str) -> ChainRecord | None:
        return None if "~" in name else self._store.chain(name)

    def _only_reads(self, request: Request) -> Response:
        why = "" if self._buttons else "; `web: {actions: true}` in the configuration puts buttons on it"
        answer = self._problem(request, 405, f"this page only reads{why}")
        return Response(answer.status, answer.kind, answer.content, {"Allow": "GET, HEAD"})

    def _press(self, request: Request, path: str) -> Response:
        """A button of the page (`/chain/NAME/ACTION`), or the same for programs (`/api/v1/chains/NAME/ACTION`)."""
        assert self._buttons is not None, "asked only where they are on"
        where = _ACTION.fullmatch(path)
        if where is None:
            return self._only_reads(request)
        program = where["prefix"] != "/chain/"
        chain = self._chain(unquote(where["name"], errors="strict"))
        if chain is None:
            return self._problem(request, 404, "there is no such chain")
        try:
            given = _body(request)
            bearer = self._access is not None and self._access.has_token(request.headers)
            if not bearer and not self._buttons.pressed_here(chain.name, given.get("token", ""), request.headers):
                raise Refused(403, "this needs the token of a page that is open here: load the page again, then press")
            said = grant(self._store, chain, where["action"], given, self._clock.now())
        except Refused as refused:
            return self._problem(request, refused.status, str(refused))
        structlog.get_logger("chainwatch.web").info(f"a person asked for it on the page: {said}", chain=chain.name)
        if program:
            return _model(200, api.Granted(chain=api.safe(chain.name), said=api.safe(said)))
        return Response(303, "text/plain", b"", {"Location": path_of(chain.name)})

    def _overview(self, _: Request) -> Response:
        view = look(self._store, self._clock.now(), self._board.pulse)
        return _html(200, pages.overview(view, self._store.active_notices()))

    def _past(self, chain: ChainRecord, last: int) -> pages.Past:
        name, store = chain.name, self._store
        return pages.Past(
            attempts=store.attempts(name, last),
            decisions=store.decisions(name, last),
            excluded=store.excluded(self._clock.now(), name),
            active=store.active_notices(name),
            points=store.points(name),
            saves=store.saves(name, last=500),
        )

    def _chain_page(self, chain: ChainRecord, last: int, fresh: bool) -> Response:
        view = look(self._store, self._clock.now(), self._board.pulse)
        token = self._buttons.token(chain.name) if self._buttons else None
        return _html(200, pages.chain_page(view, chain, self._past(chain, last), token=token, fresh=fresh))

    def _chain_json(self, chain: ChainRecord, last: int, fresh: bool) -> Response:
        del fresh
        past = self._past(chain, last)
        detail = api.ChainDetail(
            chain=api.chain_out(chain, self._clock.now()),
            attempts=[api.attempt_out(one) for one in past.attempts],
            decisions=[api.decision_out(row) for row in past.decisions],
            excluded=[api.node_out(one) for one in past.excluded],
            alerts=[api.alert_out(one) for one in past.active],
            progress=[api.PointOut(at=one.at, step=one.step, loss=one.loss) for one in past.points],
            saves=[api.save_out(one) for one in past.saves],
        )
        return _model(200, detail)

    def _chains(self, _: Request) -> Response:
        now = self._clock.now()
        return _json(200, [api.chain_out(one, now).model_dump(mode="json") for one in self._store.chains()])

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


_ACTION = re.compile(r"(?P<prefix>/chain/|/api/v1/chains/)(?P<name>[^/]+)/(?P<action>[a-z]{1,20})")


def _body(request: Request) -> dict[str, str]:
    """The fields of a form, or of a JSON object. Raises `Refused`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            value = json.loads(request.content or b"{}")
            if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
                raise Refused(400, 'an object with texts is expected, as {"for": "4h"}')
            return value
        fields = parse_qs(request.content.decode("ascii"), max_num_fields=20, errors="strict")
        return {name: values[-1] for name, values in fields.items()}
    except (ValueError, RecursionError):
        raise Refused(400, "what was sent cannot be read") from None


def _health(why: str) -> Response:
    return _model(503 if why else 200, api.Health(ok=not why, why=why))


def _html(status: int, page: str) -> Response:
    return Response(status, "text/html; charset=utf-8", page.encode("utf-8", "replace"))


def _model(status: int, model: BaseModel) -> Response:
    return _json(status, model.model_dump(mode="json"))


def _json(status: int, value: Any) -> Response:
    return Response(status, "application/json", json.dumps(value, allow_nan=False).encode())
