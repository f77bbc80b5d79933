"""`chainwatch web`: the daemon's Unix socket on a free loopback port, for a browser, behind a one-time token."""

from __future__ import annotations

import http.client
import secrets
import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from chainwatch.web.access import Access
from chainwatch.web.routes import SAFETY, Request, Response
from chainwatch.web.server import Served, serve_tcp

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "server", "date"}

_PASSED = ("accept", "content-type", "sec-fetch-site")


class _OverUnix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


class Forwarder:
    """Answers for the Unix socket, to whom has the token."""

    def __init__(self, path: Path) -> None:
        self.token = secrets.token_urlsafe(24)
        self._path = path
        self._access = Access(self.token, one_time=True)

    def respond(self, request: Request) -> Response:
        """The daemon's answer, or why there is none."""
        parts = urlsplit(request.target) if request.target.startswith("/") else urlsplit("/")
        if parts.path == "/" and (cookie := self._access.open(parse_qs(parts.query).get("token", [""])[-1])):
            return Response(303, "text/plain", b"", {**SAFETY, "Location": "/", "Set-Cookie": cookie})
        if not self._access.allows(request.headers):
            return _text(401, "This page is closed: type `chainwatch web` again for a new address.")
        connection = _OverUnix(self._path)
        try:
            headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
            connection.request(request.method, request.target, body=request.content or None, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            passed = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            return Response(answer.status, answer.getheader("Content-Type") or "text/plain", content, passed)
        except (OSError, http.client.HTTPException, ValueError):
            return _text(502, f"The daemon does not answer on {self._path}: is it running? `chainwatch status` tells.")
        finally:
            connection.close()


def forward(path: Path, port: int = 0) -> tuple[Served, str]:
    """The forwarding server and the address to open. Raises `ServerError`."""
    forwarder = Forwarder(path)
    served = serve_tcp("127.0.0.1", port, forwarder.respond)
    return served, f"http://127.0.0.1:{served.port}/?token={forwarder.token}"


def _text(status: int, sentence: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", sentence.encode(), SAFETY)
