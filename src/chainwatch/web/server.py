"""The page's sockets: a Unix socket of mode 0600, and TCP where it is asked for.

The standard library's threading server: a handful of readers, no requests that last, nothing to install. Connections
are bounded in number and time, so that a stranger who opens sockets costs a few threads and never the loop.
"""

from __future__ import annotations

import os
import socket
import socketserver
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from chainwatch.web.routes import Request, Response

Respond = Callable[[Request], Response]
_MOST, _PATIENCE = 32, 15.0
_LARGEST = 8192
"""Bytes that a POST may bring."""


class ServerError(Exception):
    """The page cannot be served; a sentence for people."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "chainwatch"
    sys_version = ""
    timeout = _PATIENCE
    server: _Server

    def _answer(self) -> None:
        self.close_connection = True  # one request a connection: the number of threads stays bounded
        headers = {name.lower(): value for name, value in self.headers.items()}
        response = self.server.respond(Request(self.command, self.path, headers, self._content(headers)))
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.content)))
        self.send_header("Connection", "close")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.content)

    def _content(self, headers: dict[str, str]) -> bytes:
        """What a POST brings, as long as it says how much, and that is little; what is left out makes no sense then."""
        length = headers.get("content-length", "0")
        if self.command != "POST" or not length.isascii() or not length.isdigit():
            return b""
        return self.rfile.read(min(int(length[:9]), _LARGEST))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _answer

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError, ValueError):
            super().handle()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: requests are no news, and their addresses may hold a token."""


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, family: socket.AddressFamily, address: Any, respond: Respond) -> None:
        self.address_family = family
        self.respond = respond
        self._slots = threading.BoundedSemaphore(_MOST)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(timeout=1.0):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


class Served:
    """A page that is being served, in a thread of its own. Use it as a context, or call `close`."""

    def __init__(self, server: _Server, path: Path | None = None) -> None:
        self._server, self._path = server, path
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="web", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering; the socket file is removed."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_unix(path: Path, respond: Respond) -> Served:
    """Serve on a Unix socket of mode 0600. A dead one that was left behind is replaced; a live one is a ServerError."""
    if len(os.fsencode(path)) > 107:
        raise ServerError(f"the path {path} is too long for a Unix socket: name a shorter one with web: {{socket: …}}")
    if path.exists() or path.is_symlink():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ServerError(f"{path} is there and is no socket: name another one with web: {{socket: …}}")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise ServerError(f"{path} cannot be used: {error.strerror or error}") from None
            else:
                raise ServerError(f"another daemon serves {path} already")
    before = os.umask(0o177)
    try:
        server = _Server(socket.AF_UNIX, str(path), respond)
    except OSError as error:
        raise ServerError(f"cannot make the socket {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    return Served(server, path)


def serve_tcp(host: str, port: int, respond: Respond) -> Served:
    """Serve on TCP; `respond` must ask for a token. Port 0: a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return Served(_Server(family, (host, port), respond))
    except OSError as error:
        raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
