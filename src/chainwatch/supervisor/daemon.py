"""The daemon around the loop: set-up, signals, delivery of alerts, systemd, and an orderly end."""

from __future__ import annotations

import getpass
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType

import structlog

from chainwatch.actions.audit import Audit
from chainwatch.alerts import Deliverer, build_all
from chainwatch.alerts.outbox import routes_of
from chainwatch.config import Config, ConfigError, load
from chainwatch.model.clock import SystemClock
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.store import Store, open_store
from chainwatch.store.records import Lease
from chainwatch.supervisor.clusters import backends
from chainwatch.supervisor.house import House
from chainwatch.supervisor.logging import decisions
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.systemd import Systemd, WatchedClock
from chainwatch.supervisor.workers import ProcessReaders

SITE_PAUSE = Path("/etc/chainwatch/PAUSE")


@dataclass(frozen=True, slots=True)
class Flags:
    """How `chainwatch run` was asked to run."""

    config: Path
    observe_only: bool = False
    once: bool = False


def holder() -> str:
    """Who holds the lease: `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Daemon:
    """One run of `chainwatch run`."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.log = structlog.get_logger()
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._clock = SystemClock()
        self._systemd = Systemd()

    def run(self) -> None:
        """Until SIGTERM or SIGINT (or one pass, with `once`).

        Raises ConfigError, StoreError, LeaseHeld, LeaseLost, NoInformation: each with its sentence.
        """
        config = load(self.flags.config).config
        store = open_store(config.state, config.database)
        try:
            with self._signals(), self._leased(store, config) as supervisor:
                self._serve(supervisor)
        finally:
            store.close()

    @contextmanager
    def _leased(self, store: Store, config: Config) -> Iterator[Supervisor]:
        lease: Lease | None = store.acquire_lease(holder(), LEASE_TTL, self._clock.now())
        readers = ProcessReaders(self._clock)
        try:
            clusters = self._clusters(store, config)
            clock = WatchedClock(self._clock, self._systemd)
            house = House(
                store=store,
                lease=lease,
                state=Path(config.state),
                config=config,
                backends=clusters,
                readers=readers,
                clock=clock,
                audit=Audit(Path(config.state)),
                user=getpass.getuser(),
                say=decisions(),
                observe_only=self.flags.observe_only,
            )
            rng = random.Random()
            pollers = {n: Poller(b, clock, house.user, config.poll, rng) for n, b in clusters.items()}
            yield Supervisor(house, pollers)
            lease = house.lease
        finally:
            readers.close()
            if lease is not None:
                store.release_lease(lease)

    def _clusters(self, store: Store, config: Config) -> dict[str, Backend]:
        """At the very first start the controller must answer once; a daemon waits for it rather than give up."""
        while True:
            try:
                return backends(config, store)
            except NoInformation as e:
                if self.flags.once or self._stop.is_set():
                    raise
                self.log.warning(f"Slurm does not answer yet: {e}; asked again in 30 seconds")
                self._systemd.status("waiting for Slurm")
                self._clock.sleep(30)

    def _serve(self, supervisor: Supervisor) -> None:
        house = supervisor.house
        self._site(house)
        if self.flags.once:
            supervisor.tick()
            self._deliverer(house).run_due(timedelta(seconds=30))
            return
        deliverer = self._deliverer(house)
        mailman = threading.Thread(target=self._deliver, args=(deliverer,), name="alerts", daemon=True)
        mailman.start()
        count = len(house.config.chains)
        names = ", ".join(supervisor.pollers)
        self.log.info(f"watching {count} configured chain{'s' * (count != 1)} on {names}; state in {house.state}")
        self._systemd.ready("starting")

        def between() -> None:
            self._site(house)
            polled = house.clock.now()
            self._systemd.status(f"{len(house.store.chains())} chains, last poll {polled:%H:%M:%S} UTC")
            if self._reload.is_set():
                self._reload.clear()
                self._reread(supervisor)

        try:
            supervisor.run(self._stop.is_set, between)
        finally:
            self._systemd.stopping()
            self._stop.set()
            mailman.join(2)
        self.log.info("stopped")

    def _deliverer(self, house: House) -> Deliverer:
        channels = build_all(house.config.alerts.channels)
        return Deliverer(house.store, channels, house.config.alerts, self._clock, routes=routes_of(house.store))

    def _deliver(self, deliverer: Deliverer) -> None:
        while not self._stop.wait(5):
            try:
                report = deliverer.run_due()
            except Exception as e:  # noqa: BLE001 - alerts must not end because one of them cannot be told
                self.log.error(f"alerts could not be delivered and are tried again: {e}")
                continue
            for problem in report.problems:
                self.log.warning(problem)

    def _reread(self, supervisor: Supervisor) -> None:
        self._systemd.reloading()
        try:
            config = load(self.flags.config).config
        except ConfigError as e:
            self.log.error(f"the new configuration is refused, the old one stays: {e}")
        else:
            fixed = [
                k for k in ("state", "database", "slurm") if getattr(config, k) != getattr(supervisor.house.config, k)
            ]
            if fixed:
                self.log.error(f"{', '.join(fixed)} cannot change while the daemon runs: restart it; the old one stays")
            else:
                supervisor.house.config = config
                self.log.info(f"the configuration was read again: {len(config.chains)} chains")
        self._systemd.ready()

    @staticmethod
    def _site(house: House) -> None:
        try:
            house.paused_by_site = SITE_PAUSE.read_text(errors="replace").strip() or "no reason given"
        except FileNotFoundError:
            house.paused_by_site = ""
        except OSError as e:
            house.paused_by_site = f"{SITE_PAUSE} cannot be read: {e.strerror}"

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._stop.set()
            self._clock.wake()

        def reread(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._reload.set()
            self._clock.wake()

        def look(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._clock.wake()

        wanted: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGTERM: stop,
            signal.SIGINT: stop,
            signal.SIGHUP: reread,
            signal.SIGUSR1: look,
        }
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
