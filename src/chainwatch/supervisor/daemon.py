"""The daemon around the loop: set-up, signals, delivery of alerts, systemd, and an orderly end."""

from __future__ import annotations

import getpass
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from chainwatch.actions.audit import Audit
from chainwatch.alerts import Deliverer, build_all
from chainwatch.alerts.outbox import routes_of
from chainwatch.config import Config
from chainwatch.config.site import pause_reason
from chainwatch.model.clock import SystemClock
from chainwatch.model.job import Source
from chainwatch.model.pulse import Board, Pulse
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.store import Damaged, Store, open_store
from chainwatch.store.records import LAST_PASS, Lease
from chainwatch.supervisor import reading, reloading
from chainwatch.supervisor.clusters import backends, remember
from chainwatch.supervisor.house import House, on_disk
from chainwatch.supervisor.logging import SignOfLife, decisions
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.outside import Outside, OutsideBackend, Stopped
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.probes import ThreadedProbes
from chainwatch.supervisor.pulsing import Companion, Companions, Pulsing
from chainwatch.supervisor.sealing import Sealing
from chainwatch.supervisor.settings import Settings
from chainwatch.supervisor.signals import Wishes
from chainwatch.supervisor.systemd import Systemd, WatchedClock
from chainwatch.supervisor.workers import ProcessReaders

REREAD_GAP = 1.0
"""Seconds between two readings of the configuration: a storm of SIGHUP is granted by one at its end."""
ASK_AGAIN = 30.0
"""Seconds after which a Slurm that never answered yet is asked again."""
ONCE_PATIENCE = 60.0
"""Seconds that a single pass waits for one read of storage: there is no later pass that could fetch its answer."""


@dataclass(frozen=True, slots=True)
class Flags:
    """How `chainwatch run` was asked to run."""

    config: Path
    state: Path | None = None
    """State directory; None: the configuration's."""
    database: str | None = None
    """URL of the database; None: the configuration's."""
    observe_only: bool = False
    once: bool = False
    companions: Companions | None = None
    """Starts what runs beside the loop: page, metrics file, heartbeat."""


def holder() -> str:
    """Who holds the lease: `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Daemon:
    """One run of `chainwatch run`."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.log = structlog.get_logger()
        self._clock = SystemClock()
        self._systemd = Systemd()
        self._outside = Outside()
        self._wishes = Wishes(self._clock, self._outside)
        self._over = threading.Event()
        """Ends the thread of the alerts. For the main thread, never for a signal handler."""
        self._damaged: Damaged | None = None
        """What the thread of the alerts met before the loop did."""
        self._readers = ProcessReaders(self._clock, waiting=self._outside.asking)
        self._settings = Settings(flags.config, self.log.warning, self._script, flags.state, flags.database)
        self._post: Deliverer | None = None
        self._beside: Companion | None = None
        self._board = Board()
        self._reread_until = 0.0
        """When, by the clock's `monotonic`, the configuration may be read again."""

    def run(self) -> None:
        """Until SIGTERM or SIGINT (or one pass, with `once`).

        Raises ConfigError, SiteError, StoreError, LeaseHeld, LeaseLost, NoInformation: each with its sentence.
        """
        with self._wishes.rereading(), closing(self._readers):
            config = self._settings.read()
            store = open_store(config.state, config.database)
            try:
                with self._wishes.heard(), self._leased(store, config) as supervisor:
                    self._serve(supervisor)
            except Stopped:
                self.log.info("stopped")
            finally:
                store.close()

    def _script(self, path: Path) -> str | None:
        """The text of a batch script, where its storage answers soon enough."""
        key = f"rule:{self._clock.monotonic()}:{path}"  # never an answer from before
        found = self._readers.work(key, reading.script, on_disk, str(path))
        return found.decode(errors="replace") if isinstance(found, bytes) else None

    @contextmanager
    def _leased(self, store: Store, config: Config) -> Iterator[Supervisor]:
        last: Lease | None = (lease := store.acquire_lease(holder(), LEASE_TTL, self._clock.now()))
        self._readers.rate = self._settings.site.bytes_per_second
        if self.flags.once:
            self._readers.patience = ONCE_PATIENCE
        try:
            config, raw, lease = self._meet(store, config, lease)
            last = lease
            clusters: dict[str, Backend] = {n: OutsideBackend(b, self._outside) for n, b in raw.items()}
            clock = WatchedClock(self._clock, self._systemd)
            house = House(
                store=store,
                lease=lease,
                state=Path(config.state),
                config=config,
                backends=clusters,
                readers=self._readers,
                clock=clock,
                audit=Audit(Path(config.state)),
                user=getpass.getuser(),
                uid=os.getuid(),
                say=decisions(),
                source=os.path.abspath(os.path.expanduser(self.flags.config)),
                warn=self.log.warning,
                observe_only=self.flags.observe_only,
                site=self._settings.site,
                probes=ThreadedProbes(raw),
                site_pause=pause_reason,
            )
            rng = random.Random()
            pollers = {n: Poller(b, clock, house.user, config.poll, rng) for n, b in clusters.items()}
            yield Supervisor(house, pollers)
            last = house.lease
        finally:
            self._readers.close()
            if last is not None:
                store.release_lease(last)

    def _meet(self, store: Store, config: Config, lease: Lease) -> tuple[Config, dict[str, Backend], Lease]:
        """The clusters. At the very first start the controller must answer once; a daemon waits for it rather than give up.

        Meanwhile it keeps its lease and grants reloads: the way to Slurm may be what is wrong.
        """
        while True:
            try:
                with self._outside.asking():
                    found = backends(config, store, self.log.warning)
                remember(config, store)
                return config, found, lease
            except NoInformation as e:
                if self.flags.once:
                    raise
                self.log.warning(f"Slurm does not answer yet: {e}; asked again in {ASK_AGAIN:g} seconds")
                self._systemd.ready("waiting for Slurm")
            config = self._wait_for_slurm(store, config)
            lease = store.renew_lease(lease, LEASE_TTL, self._clock.now())

    def _wait_for_slurm(self, store: Store, config: Config) -> Config:
        """Until Slurm is to be asked again: soon, or at once by another way. The configuration to go on with."""
        clock, until = WatchedClock(self._clock, self._systemd), self._clock.monotonic() + ASK_AGAIN
        while not self._wishes.stop and (left := until - clock.monotonic()) > 0:
            if self._wishes.reload:
                before, taken = config.slurm, [config]
                self._granted(store, config, taken.append, reloading.FIXED_BEFORE_SLURM)
                config = taken[-1]
                if config.slurm != before:
                    break
            else:
                clock.sleep(left)
        if self._wishes.stop:
            raise Stopped
        return config

    def _rest(self, until: float) -> None:
        """Nothing but a stop ends this early: whoever wakes a daemon again and again makes it ask no more often."""
        clock = WatchedClock(self._clock, self._systemd)
        while not self._wishes.stop and (left := until - clock.monotonic()) > 0:
            clock.sleep(left)

    def _serve(self, supervisor: Supervisor) -> None:
        house = supervisor.house
        pulsing = Pulsing(supervisor.pollers, self._clock.now(), house.config.poll)
        self._outfit(house)
        if self.flags.once:
            try:
                supervisor.tick()
                house.store.remember(LAST_PASS, self._clock.now().isoformat())
                self._turned(supervisor, pulsing)
                with self._outside.acting():
                    self._deliver_once(timedelta(seconds=30))
            finally:
                self._part()
            silent = [name for name, poller in supervisor.pollers.items() if Source.QUEUE not in poller.last_good]
            if silent:
                raise NoInformation(f"Slurm did not answer for {', '.join(silent)}: nothing was concluded")
            return
        mailman = threading.Thread(target=self._deliver, name="alerts", daemon=True)
        mailman.start()
        count = len(house.config.chains)
        names = ", ".join(supervisor.pollers)
        self.log.info(f"watching {count} configured chain{'s' * (count != 1)} on {names}; state in {house.state}")
        self._systemd.ready("starting")
        life, site_file = SignOfLife(), reloading.SiteFile()
        sealing = Sealing(house)

        def between() -> None:
            sealing.look(house.store.chains(), self._clock.now())
            pulse = self._turned(supervisor, pulsing)
            count = len(house.store.chains())
            summary = f"{count} chain{'s' * (count != 1)}, last poll {pulse.at:%H:%M:%S} UTC"
            if blind := pulse.blind(pulse.at):
                summary = f"{summary}; blind: {blind}"
            self._systemd.status(summary)
            life.turn(pulse.at, summary)
            if site_file.changed():
                self._wishes.reload = True

        def wakened() -> bool:
            soon, self._wishes.look = self._wishes.look, False
            return (self._wishes.reload and self._reread(supervisor, pulsing)) or soon

        try:
            supervisor.run(lambda: self._wishes.stop or self._damaged is not None, between, wakened)
            if self._damaged is not None:
                raise self._damaged
        except Stopped:
            pass
        finally:
            self._systemd.stopping()
            self._over.set()
            sealing.close()
            self._part()
            mailman.join(2)
        self.log.info("stopped")

    def _outfit(self, house: House) -> None:
        """What a configuration brings with it beside the loop; anew after each reload."""
        self._part()
        channels = build_all(house.config.alerts.channels, self._settings.site.allowed_hosts)
        routes = routes_of(house.store)
        self._post = Deliverer(house.store, channels, house.config.alerts, self._clock, routes=routes)
        if self.flags.companions is not None:
            self._beside = self.flags.companions(
                house.config, house.store, self._board, self._settings.site.allowed_hosts
            )

    def _part(self) -> None:
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.close()

    def _turned(self, supervisor: Supervisor, pulsing: Pulsing) -> Pulse:
        """Publish what the pass saw, and count its questions."""
        house, now = supervisor.house, supervisor.house.clock.now()
        pulse = pulsing.take(
            now, now + supervisor.pause(), observing=house.observe_only, paused_by_site=house.paused_by_site
        )
        pulsing.count(house.store)
        if self._beside is not None:
            self._beside.turn(pulse)
        return pulse

    def _deliver(self) -> None:
        while not self._over.wait(5):
            try:
                self._deliver_once(timedelta(minutes=1))
            except Damaged as e:
                self._damaged = e
                self._clock.wake()
                return

    def _deliver_once(self, deadline: timedelta) -> None:
        if self._post is None:
            return
        try:
            self._post.run_due(deadline)  # it logs what does not get through
        except Damaged:
            raise
        except Exception as e:  # noqa: BLE001 - alerts must not end because one of them cannot be told
            self.log.error(f"alerts could not be delivered and are tried again: {e}")

    def _reread(self, supervisor: Supervisor, pulsing: Pulsing) -> bool:
        """Grant a reload to the loop. Whether there is a new configuration to act by."""
        house = supervisor.house

        def take(config: Config) -> None:
            house.config, house.site = config, self._settings.site
            self._readers.rate = house.site.bytes_per_second
            pulsing.interval = config.poll
            for poller in supervisor.pollers.values():
                poller.interval = config.poll
            self._outfit(house)

        return self._granted(house.store, house.config, take)

    def _granted(
        self,
        store: Store,
        old: Config,
        take: Callable[[Config], None],
        fixed: Sequence[str] = reloading.FIXED,
    ) -> bool:
        """Read the configuration again, `take` what there is to go on with, and answer who asked. Whether it is new."""
        self._rest(self._reread_until)
        if self._wishes.stop:
            return False
        self._wishes.reload = False
        self._systemd.reloading()
        now, said = self._clock.now(), ""
        config, problem = self._settings.reread(old, fixed)
        if problem:
            self.log.error(problem)
        elif config is not None:
            said = reloading.difference(old, config)
            self.log.info(said)
        if config is not None:
            take(config)
        reloading.answer(store, now, problem, said)
        self._systemd.ready()
        self._reread_until = self._clock.monotonic() + REREAD_GAP
        return not problem
