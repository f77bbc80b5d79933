"""What a service tells systemd: ready, status, reloading, stopping, and that its loop is alive (sd_notify(3)).

A datagram on the socket that NOTIFY_SOCKET names. Without one (a terminal, cron) every call does nothing. Nothing here
ever raises: a daemon must not die of a closed socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import datetime
from time import clock_gettime_ns

from chainwatch.model.clock import Clock


class Systemd:
    """The service manager, as seen from the daemon."""

    def __init__(self, environment: Mapping[str, str] | None = None, pid: int | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog = _watchdog(environment, os.getpid() if pid is None else pid)
        """Seconds within which systemd wants a ping; None: it wants none."""
        self._status = ""

    @property
    def present(self) -> bool:
        """systemd (or who plays it) listens."""
        return self._address is not None

    def ready(self, status: str = "") -> None:
        """The first pass is done, or a reload is over."""
        self._send("READY=1", *self._with(status))

    def status(self, line: str) -> None:
        """One line for `systemctl status`; sent only when it changed."""
        if _one_line(line) != self._status:
            self._send(*self._with(line))

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` ends it. With the time, as Type=notify-reload asks."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={clock_gettime_ns(_MONOTONIC) // 1000}")

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", *self._with(status))

    def ping(self) -> None:
        """The loop is alive. Called by the loop itself and nobody else: a thread would go on when the loop is stuck."""
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def _with(self, status: str) -> tuple[str, ...]:
        if not status:
            return ()
        self._status = _one_line(status)
        return (f"STATUS={self._status}",)

    def _send(self, *lines: str) -> None:
        if self._address is None or not lines:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(0.5)  # a manager that is busy holds up the loop no longer than this
                out.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except OSError:
            pass  # systemd will judge by its own timers


class WatchedClock:
    """A clock that pings the watchdog when the loop asks it for the time or sleeps by it: a long, legitimate sleep and a
    pass with many slow questions are not taken for a stuck loop. It must be handed to the loop alone.
    """

    def __init__(self, clock: Clock, systemd: Systemd) -> None:
        self._clock, self._systemd = clock, systemd
        self._pinged = clock.monotonic()

    def now(self) -> datetime:
        if self._systemd.watchdog is not None:
            moment = self._clock.monotonic()
            if moment - self._pinged >= self._systemd.watchdog / 4:
                self._pinged = moment
                self._systemd.ping()
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> bool:
        self._systemd.ping()
        if self._systemd.watchdog is None:
            return self._clock.sleep(seconds)
        slice_, end = self._systemd.watchdog / 3, self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0:
            woken = self._clock.sleep(min(slice_, left))
            self._systemd.ping()
            if woken:
                return True
        return False


_MONOTONIC = 1
"""CLOCK_MONOTONIC, the clock of MONOTONIC_USEC."""


def _address(name: str) -> str | None:
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _watchdog(environment: Mapping[str, str], pid: int) -> float | None:
    """WATCHDOG_USEC, if it is meant for this process (a child inherits the variables)."""
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    try:
        microseconds = int(environment.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return microseconds / 1e6 if microseconds > 0 else None


def _one_line(text: str) -> str:
    """Without line breaks: a second line of a datagram is another assignment, and chain names come from users."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]
