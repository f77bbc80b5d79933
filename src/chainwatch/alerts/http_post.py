"""One HTTP request within a total deadline, to the host that was named and no other.

The standard library's client: it reads no proxy variables, follows nothing by itself, and needs no further package on
a login node. What it lacks is a deadline for the whole exchange (its time-out is one of each read, so a server that
sends a byte a second holds it forever): a timer cuts the connection.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from chainwatch.alerts.channel import Answer, Told, TryLater, Unwelcome
from chainwatch.model.text import clean

_MOST = 64 * 1024
_HOPS = 2


class Unreachable(Exception):
    """No answer; the sentence names the host and never the path, which is the secret of a webhook."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered."""

    status: int
    text: str
    """At most 200 characters of its body, cleaned."""
    retry_after: timedelta | None
    location: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to, and how to get there."""

    url: str
    deadline: timedelta = timedelta(seconds=20)
    proxy: str | None = None
    ca_file: Path | None = None
    allowed_hosts: tuple[str, ...] | None = None
    """Hosts that the site allows, as exact names or `*.example.org`; None: any."""


def request(target: Target, method: str, body: bytes | None, headers: Mapping[str, str], now: datetime) -> Reply:
    """The answer to one request. A 307 or 308 to the same scheme, host and port is followed; nothing else is.

    Raises `Unreachable` for everything that is no answer.
    """
    url, origin = target.url, _origin(target, target.url)
    timer = _Deadline(target.deadline.total_seconds())
    try:
        for _ in range(_HOPS + 1):
            reply = _exchange(target, urlsplit(url), method, body, headers, now, timer)
            if reply.status not in {307, 308} or not reply.location:
                return reply
            url = urljoin(url, reply.location)
            if _origin(target, url) != origin:
                raise Unreachable(f"{origin[1]} redirects to another server ({urlsplit(url).hostname}); refused")
        raise Unreachable(f"{origin[1]} redirects in circles")
    finally:
        timer.stop()


def judged(reply: Reply, host: str, expected: str | None = None) -> Answer:
    """What became of a message. `expected` is the body by which the service says that it took it (a captive portal
    answers 200 too)."""
    said = f" ({reply.text})" if reply.text else ""
    if 200 <= reply.status < 300:
        if expected is None or reply.text.strip() == expected:
            return Told()
        return TryLater(f"{host} answered {reply.status}, but not as the service does{said}")
    if 300 <= reply.status < 400:
        return TryLater(f"{host} answered {reply.status}: the address has moved; name the new one")
    if reply.status in {400, 413, 415, 422}:
        return Unwelcome(f"{host} refused the message: {reply.status}{said}")
    if reply.status in {401, 403, 404, 410}:
        return TryLater(f"{host} does not accept the address: {reply.status}{said}; was the webhook deleted?")
    return TryLater(f"{host} answered {reply.status}{said}", reply.retry_after)


def host_of(url: str) -> str:
    """The host for sentences. Raises `Unreachable` where it is no web address."""
    return _origin(Target(url), url)[1]


def _origin(target: Target, url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Unreachable("the address is no valid URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Unreachable("the address is not an http:// or https:// URL")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise Unreachable("the address has a space or a control character in it")
    hosts = target.allowed_hosts
    if hosts is not None and not allowed(parts.hostname, hosts):
        raise Unreachable(
            f"this site does not allow alerts to {parts.hostname} (allowed: {', '.join(hosts) or 'none'})"
        )
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def allowed(host: str, patterns: Sequence[str]) -> bool:
    """One of the site's patterns (`chat.example.org`, `*.example.org`) is of this host."""
    return any(_matches(host.lower(), pattern.lower()) for pattern in patterns)


def _matches(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _exchange(
    target: Target,
    url: SplitResult,
    method: str,
    body: bytes | None,
    headers: Mapping[str, str],
    now: datetime,
    timer: _Deadline,
) -> Reply:
    host = url.hostname or ""
    connection: http.client.HTTPConnection | None = None
    try:
        connection, path = _connection(target, url, timer.left())
        connect: Callable[..., socket.socket] = connection._create_connection  # type: ignore[attr-defined]

        def watched(*args: Any, **kwargs: Any) -> socket.socket:
            return timer.watch(connect(*args, **kwargs))

        connection._create_connection = watched  # type: ignore[attr-defined]
        connection.request(method, path, body, {"User-Agent": "chainwatch", **headers})
        response = connection.getresponse()
        content = response.read(_MOST)
        if timer.fired:
            raise TimeoutError  # a cut connection looks like the end of the body
        text = clean(content.decode("utf-8", "replace"), 200, one_line=True)
        return Reply(
            response.status,
            text,
            _retry_after(response.getheader("Retry-After"), now),
            response.getheader("Location", ""),
        )
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"the certificate of {host} is not valid: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
        if timer.fired or isinstance(error, TimeoutError):
            raise Unreachable(f"{host} did not answer within {target.deadline.total_seconds():g} s") from None
        if isinstance(error, socket.gaierror):
            raise Unreachable(f"the name {host} cannot be resolved: {error.strerror}") from None
        why = getattr(error, "strerror", None) or type(error).__name__
        raise Unreachable(f"no connection to {host}: {why}") from None
    finally:
        if connection is not None:
            connection.close()


def _connection(target: Target, url: SplitResult, seconds: float) -> tuple[http.client.HTTPConnection, str]:
    _, host, port = _origin(target, url.geturl())
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    secure = url.scheme == "https"
    context = ssl.create_default_context(cafile=target.ca_file) if secure else None
    via = urlsplit(target.proxy) if target.proxy else None
    first = (via.hostname or "", via.port or 3128) if via else (host, port)
    if context is not None:
        tls = http.client.HTTPSConnection(*first, timeout=seconds, context=context)
        if via:
            tls.set_tunnel(host, port)
        return tls, path
    return http.client.HTTPConnection(*first, timeout=seconds), url.geturl().split("#")[0] if via else path


def _retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Seconds or an HTTP date (RFC 9110, 10.2.3); anything else is as if it were not there."""
    if not value:
        return None
    if value.strip().isdigit():
        return timedelta(seconds=min(int(value), 10**7))
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    return wait if wait > timedelta(0) else None


class _Deadline:
    """Cuts the connection when its time is over, whatever it is doing (a TLS handshake too).

    It holds a duplicate of the descriptor: the socket object may be wrapped or closed meanwhile.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._end = monotonic() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left(self) -> float:
        if self.fired:
            raise TimeoutError
        return max(0.05, self._end - monotonic())

    def watch(self, connected: socket.socket) -> socket.socket:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = socket.socket(fileno=os.dup(connected.fileno()))
            if self.fired:
                raise TimeoutError
        return connected

    def _cut(self) -> None:
        with self._lock:
            self.fired = True
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the other side closed it already

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
