"""What runs beside the loop of `chainwatch run`: the status page, the metrics file, the heartbeat.

None of it may stop the loop or slow it: each works in a thread of its own, and what fails is said once in the log.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from chainwatch.alerts import HeartbeatSender
from chainwatch.alerts.channel import TryLater, Unwelcome
from chainwatch.config.models import Config
from chainwatch.config.secrets import SecretUnusable
from chainwatch.model.clock import Clock, SystemClock
from chainwatch.model.pulse import Board, Pulse
from chainwatch.store import Store, StoreError
from chainwatch.web.access import Access
from chainwatch.web.metrics import write_textfile
from chainwatch.web.routes import Site
from chainwatch.web.server import Served, ServerError, serve_tcp, serve_unix
from chainwatch.web.view import look


def serve(config: Config, store: Store, board: Board, clock: Clock) -> list[Served]:
    """The page on its Unix socket, and on TCP where that is configured. What cannot be served is said, not fatal."""
    log = structlog.get_logger("chainwatch.web")
    web, served = config.web, list[Served]()
    if web.socket != "off":
        path = Path(web.socket or Path(config.state) / "web.sock")
        try:
            served.append(
                serve_unix(path, Site(store, board, clock, max_chains=web.max_chains, actions=web.actions).respond)
            )
        except ServerError as error:
            log.warning(f"the status page is not served: {error}")
    if web.listen:
        host, _, port = web.listen.rpartition(":")
        try:
            access = Access(web.token())
            site = Site(
                store,
                board,
                clock,
                access=access,
                open_metrics=web.open_metrics,
                max_chains=web.max_chains,
                actions=web.actions,
            )
            served.append(serve_tcp(host.strip("[]"), int(port), site.respond))
        except (ServerError, SecretUnusable, ValueError) as error:
            log.warning(f"the status page is not served on {web.listen}: {error}")
    return served


class BesideTheLoop:
    """Implements `supervisor.pulsing.Companion`."""

    def __init__(
        self,
        config: Config,
        store: Store,
        board: Board,
        allowed_hosts: tuple[str, ...] | None = None,
        *,
        clock: Clock | None = None,
        page: bool = True,
    ) -> None:
        self._config, self._store, self._board = config, store, board
        self._clock = clock or SystemClock()
        self._log = structlog.get_logger("chainwatch")
        self._served = serve(config, store, board, self._clock) if page else []
        heartbeat = config.alerts.heartbeat
        self._heart = HeartbeatSender(heartbeat, allowed_hosts) if heartbeat else None
        self._said: dict[str, str] = {}
        self._done: Pulse | None = None
        self._stop, self._turned = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="beside", daemon=True)
        self._thread.start()

    def turn(self, pulse: Pulse) -> None:
        """The loop turned: publish it, and let the thread do the rest."""
        self._board.publish(pulse)
        self._turned.set()

    def close(self) -> None:
        """End the servers and the thread."""
        self._stop.set()
        self._turned.set()
        for served in self._served:
            served.close()
        self._thread.join(25)

    def _work(self) -> None:
        ending = False
        while not ending:
            self._turned.wait()
            self._turned.clear()
            ending = self._stop.is_set()
            pulse = self._board.pulse
            if pulse is not None and pulse is not self._done:
                self._done = pulse  # also a last one, that was published just before the end
                self._textfile()
                self._beat()

    def _textfile(self) -> None:
        path = self._config.web.textfile
        if path is None:
            return
        try:
            view = look(self._store, self._clock.now(), self._board.pulse)
            write_textfile(path, view, max_chains=self._config.web.max_chains)
            self._once("textfile", "")
        except (OSError, StoreError) as error:
            self._once("textfile", f"the metrics file {path} cannot be written: {error}")

    def _beat(self) -> None:
        pulse, now = self._board.pulse, self._clock.now()
        if self._heart is None or pulse is None:
            return
        answer = self._heart.beat(now, sees=pulse.alive(now) and not pulse.blind(now))
        if isinstance(answer, TryLater | Unwelcome):
            self._once("heartbeat", f"the heartbeat did not get through: {answer.why}")
        elif answer is not None:
            self._once("heartbeat", "")

    def _once(self, what: str, sentence: str) -> None:
        """Say a trouble when it begins, and not again until it changed or passed."""
        if self._said.get(what, "") != sentence:
            self._said[what] = sentence
            if sentence:
                self._log.warning(sentence)
