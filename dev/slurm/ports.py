"""Free TCP ports that two clusters booting at the same time never both choose."""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 12_000, 29_999
"""Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes a port of a stopped daemon."""


class PortReservation:
    """Ports that are free now, and that no other reservation on this machine gets while this one is held.

    Each port is claimed by an abstract Unix socket of its name: exclusive on the whole machine, for every user, and
    gone with the process, so that nothing is left to clean up.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []

    def take(self, count: int) -> list[int]:
        """`count` different ports."""
        ports: list[int] = []
        candidates = list(range(LOWEST, HIGHEST + 1))
        random.SystemRandom().shuffle(candidates)
        for port in candidates:
            if len(ports) == count:
                break
            if self._claim(port):
                ports.append(port)
        return ports

    def release(self) -> None:
        """Give the claims up. Ports on which daemons listen stay theirs."""
        while self._claims:
            self._claims.pop().close()

    def _claim(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0chainwatch-dev-port-{port}")
        except OSError:
            claim.close()
            return False
        if not _is_free(port):
            claim.close()
            return False
        self._claims.append(claim)
        return True


def _is_free(port: int) -> bool:
    """Nobody listens on the port at any address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
            probe.listen(1)
        except OSError:
            return False
    return True
