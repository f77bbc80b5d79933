"""The loop: poll each cluster, take one step for each chain, sleep. It keeps nothing that the store does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from chainwatch.actions.tag import short_instance
from chainwatch.alerts.message import Kind, body
from chainwatch.diagnosis.cohorts import Cohort, Failure
from chainwatch.diagnosis.hang import Watch
from chainwatch.diagnosis.incidents import Held, part_of
from chainwatch.model.chain import Attempt
from chainwatch.model.job import Job, Snapshot, Source
from chainwatch.slurm.backend import ClusterInfo, NoInformation
from chainwatch.store.errors import LeaseLost, StoreError
from chainwatch.store.records import ChainRecord, Intent
from chainwatch.supervisor import watching
from chainwatch.supervisor.arrays import array_of
from chainwatch.supervisor.asking import Asking
from chainwatch.supervisor.chain import ChainStep
from chainwatch.supervisor.cohorts import COUNTS, Cohorts
from chainwatch.supervisor.configured import Configured
from chainwatch.supervisor.house import House
from chainwatch.supervisor.incidents import Incidents
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.sight import assign, missed

LEASE_TTL = timedelta(minutes=5)
SOON = timedelta(seconds=5)
"""A pass that somebody asks for comes as long after the last one: however often they ask, Slurm is not."""
BLIND_AFTER = timedelta(minutes=15)
"""Without one good squeue for this long, people are told that chainwatch is blind."""
SITE_PAUSED = "site-paused"
"""Key of the alert that the site stopped all actions."""


class Supervisor:
    """One daemon's loop over its house."""

    def __init__(self, house: House, pollers: Mapping[str, Poller]) -> None:
        self.house = house
        self.pollers = pollers
        self._step = ChainStep(house)
        self._incidents = Incidents(house)
        self._cohorts = Cohorts(house)
        self._configured = Configured(house, self._step.traces)
        self._asking = Asking(house)
        self._at_rest: dict[str, ChainRecord] = {}
        """Chains of which a whole step changed nothing, as they were then. A shortcut: a new daemon has none."""
        self._clusters: dict[str, ClusterInfo] = {}
        self._blind_since: dict[str, datetime] = {}
        self.last_tick: datetime | None = None
        self._stopped: Callable[[], bool] = lambda: False

    # -- the loop

    def run(
        self,
        stopped: Callable[[], bool],
        between: Callable[[], None] = lambda: None,
        wakened: Callable[[], bool] = lambda: False,
    ) -> None:
        """Tick until `stopped()`. `between` is called after each tick (alerts, notifications); `wakened` before the sleep
        and whenever it is broken off: it grants what a signal asked for, and says whether the next tick is to come soon.

        Raises LeaseLost when another daemon took over, StoreError when the database fails: both mean stop.
        """
        self._stopped = stopped
        while not stopped():
            self.tick()
            between()
            if not stopped():
                self._sleep(self.pause(), stopped, wakened)

    def pause(self) -> timedelta:
        """Until the next tick: the shortest pause that any cluster's poller asks for."""
        return min((p.pause() for p in self.pollers.values()), default=self.house.config.poll)

    def _sleep(self, span: timedelta, stopped: Callable[[], bool], wakened: Callable[[], bool]) -> None:
        """Sleep in pieces that keep the lease fresh and see at once what somebody asks for."""
        clock = self.house.clock
        begun = clock.monotonic()
        end = begun + span.total_seconds()
        while not stopped():
            if wakened():
                end = min(end, begun + SOON.total_seconds())
            if (left := end - clock.monotonic()) <= 0:
                return
            clock.sleep(min(left, LEASE_TTL.total_seconds() / 4))
            self._renew_in_time()

    def _renew(self) -> None:
        assert self.house.lease is not None, "the loop acts under a lease"
        self.house.lease = self.house.store.renew_lease(self.house.lease, LEASE_TTL, self.house.clock.now())

    def _renew_in_time(self) -> None:
        """A pass over many chains whose storage is slow takes longer than the lease lasts, and so may a sleep. (A sleep
        that is broken off a thousand times is no reason to write a thousand times.)"""
        lease = self.house.lease
        if lease is not None and lease.until - self.house.clock.now() < LEASE_TTL / 2:
            self._renew()

    # -- one tick

    def tick(self) -> None:
        """One pass over everything. A chain whose step fails is told about, and does not stop the others."""
        self._renew()
        now = self.house.clock.now()
        self._ask_site(now)
        self._step.acting.right.settle(now)
        chains = self._chains()
        past = {c.name: self.house.store.attempts(c.name) for c in chains}
        still_open = self._open_intents()
        kept = [c for c in chains if not c.released]
        held, cohorts = self._incidents.look(kept, past, now), self._cohorts.look(kept, past, now)
        alive = watching.watches(kept)
        if not watching.stalled(alive):
            self._step.traces.over(watching.STALLED, now)
        busy = sum(not c.state.quiet for c in kept)
        alike = Counter(c.template for c in kept if c.state in COUNTS)
        for name, poller in self.pollers.items():
            mine = [c for c in chains if c.cluster == name]
            known = [self._asking.known(c, past[c.name], still_open.get(c.name, ())) for c in mine]
            snapshot = poller.poll(
                lambda jobs, m=mine, k=known: self._asking.wanted(jobs, m, k, past, still_open)  # type: ignore[misc]
            )
            self._renew_in_time()
            self._sight(name, snapshot, now)
            seen = assign(snapshot.jobs, known, short_instance(self.house.store.instance))
            for record in mine:
                if self._stopped():
                    return
                jobs, attempts = seen.get(record.name, ()), past[record.name]
                unseen = missed(snapshot.records, [*jobs, *(a.job for a in attempts)], *array_of(record, attempts))
                if not unseen and self._rests(record, jobs, attempts, still_open):
                    continue
                mine_too = part_of(held, record.name, attempts, record.retried_at)
                self._one(record, snapshot, jobs, unseen, mine_too, cohorts, alike[record.template], alive, busy)
                self._renew_in_time()
        self._homeless(kept, now)
        self.last_tick = now

    def _chains(self) -> list[ChainRecord]:
        """All chains, in step with the configuration."""
        chains = self.house.store.chains()
        if self._configured.adopt(self.house.config, chains):
            chains = self.house.store.chains()
        self.house.store.keep_attempts({c.name: c.created for c in chains})
        return chains

    def _open_intents(self) -> dict[str, list[Intent]]:
        found: dict[str, list[Intent]] = {}
        for intent in self.house.store.open_intents():
            found.setdefault(intent.chain, []).append(intent)
        return found

    def _rests(
        self,
        record: ChainRecord,
        jobs: Sequence[Job],
        attempts: Sequence[Attempt],
        still_open: Mapping[str, Sequence[Intent]],
    ) -> bool:
        """A step would change nothing: nothing lives, nothing is owed, and all is as it was when one changed nothing."""
        if self._at_rest.get(record.name) != record or record.name in still_open:
            return False
        judged = {a.job.attempt for a in attempts if a.verdict is not None}
        if len(judged) < len(attempts):
            return False
        return all(job.state.terminal and job.attempt in judged for job in jobs)

    def _note_rest(self, before: ChainRecord, after: ChainRecord, snapshot: Snapshot) -> None:
        timed = before.desired_until is not None or before.wait_until is not None
        concluded = snapshot.knows(Source.QUEUE)  # a step without an answer changes nothing either, and is no rest
        if before == after and before.state.quiet and not timed and concluded:
            self._at_rest[before.name] = before
        else:
            self._at_rest.pop(before.name, None)

    def _ask_site(self, now: datetime) -> None:
        """The site has the last word on whether anything is done. Told once for all chains, while it lasts."""
        self.house.paused_by_site = why = self.house.site_pause()
        if why:
            self._step.traces.tell_all(
                SITE_PAUSED,
                "warning",
                "the site has paused every action of chainwatch",
                body(
                    Kind.CHANGED,
                    why=why,
                    did="nothing is submitted, cancelled or moved until the site says so",
                    wants="ask whoever runs the cluster, if it lasts",
                    command="chainwatch status",
                ),
                now,
            )
        else:
            self._step.traces.over(SITE_PAUSED, now)

    def _homeless(self, chains: Sequence[ChainRecord], now: datetime) -> None:
        """A chain of a cluster that nobody polls would stall in silence."""
        for record in chains:
            if record.cluster not in self.pollers:
                self.house.store.owe(
                    record.name,
                    f"{record.name}:homeless:{record.cluster}",
                    "critical",
                    f"{record.name}: nobody watches its cluster {record.cluster}",
                    body(Kind.PERSON, wants=f"add {record.cluster} to slurm.clusters, or forget the chain"),
                    now,
                )

    def _one(
        self,
        record: ChainRecord,
        snapshot: Snapshot,
        jobs: tuple[Job, ...],
        unseen: tuple[Job, ...],
        incident: Held | None,
        cohorts: Mapping[Failure, Cohort],
        siblings: int,
        alive: Mapping[str, Watch],
        chains: int,
    ) -> None:
        now = self.house.clock.now()
        scene = Scene(
            snapshot,
            jobs,
            missed=unseen,
            incident=incident,
            cohorts=cohorts,
            siblings=siblings,
            chains=chains,
            watches=alive,
            remembers=self._remembers(record.cluster),
        )
        try:
            self._note_rest(record, self._step.take(record, scene), snapshot)
        except (LeaseLost, StoreError):
            raise
        except Exception as e:  # noqa: BLE001 - one chain must not stop the others
            self._broken(record, e, now)

    def _broken(self, record: ChainRecord, error: Exception, now: datetime) -> None:
        """A step that fails is a fault of ours (or of the chain's settings): told once, and tried again next tick."""
        self._at_rest.pop(record.name, None)
        why = f"{type(error).__name__}: {error}"
        self.house.say(f"this chain's step failed and is tried again: {why}", record, {"error": why, "exc_info": error})
        with self.house.store.transaction(self.house.lease):
            self.house.store.owe(
                record.name,
                f"{record.name}:broken:{type(error).__name__}",
                "critical",
                f"{record.name}: chainwatch cannot look after this chain",
                body(
                    Kind.PERSON, why=why, wants="look at the daemon's log", command=f"chainwatch explain {record.name}"
                ),
                now,
            )
            self.house.store.bump("step_errors", {"chain": record.name})

    def _sight(self, cluster: str, snapshot: Snapshot, now: datetime) -> None:
        """Tell people when Slurm has been silent for long, and when it speaks again."""
        key = f"blind:{cluster}"
        if snapshot.knows(Source.QUEUE):
            self._blind_since.pop(cluster, None)
            self._step.traces.over(key, now)
            self._meet_cluster(cluster)
            return
        since = self._blind_since.setdefault(cluster, now)
        if now - since >= BLIND_AFTER:
            why = snapshot.failed.get(Source.QUEUE, "")
            self._step.traces.tell_all(
                key,
                "critical",
                f"{cluster}: Slurm has not answered for {int((now - since).total_seconds() // 60)} minutes",
                body(Kind.BLIND, why=why, did="nothing: silence is never read as an answer", command="scontrol ping"),
                now,
            )

    def _meet_cluster(self, cluster: str) -> None:
        """Ask a cluster once what it is like."""
        if cluster in self._clusters:
            return
        poller = self.pollers[cluster]
        try:
            info = poller.backend.info()
        except NoInformation:
            return
        self._clusters[cluster] = info
        poller.accounting = info.accounting

    def _remembers(self, cluster: str) -> timedelta | None:
        """How long only the controller remembers an end; None where there is accounting, or nobody knows yet."""
        info = self._clusters.get(cluster)
        return timedelta(seconds=info.min_job_age) if info is not None and not info.accounting else None


__all__ = ["LEASE_TTL", "Supervisor"]
