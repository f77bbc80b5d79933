"""The loop: poll each cluster, take one step for each chain, sleep. It keeps nothing that the store does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from chainwatch.actions import aside
from chainwatch.actions.tag import short_instance
from chainwatch.alerts.message import Kind, body
from chainwatch.diagnosis.hang import Watch
from chainwatch.diagnosis.incidents import Incident, find_cohorts, find_incident
from chainwatch.model.chain import Attempt, ChainState, Desired, Mode
from chainwatch.model.job import Job, Snapshot, Source
from chainwatch.recovery import over_before
from chainwatch.slurm.backend import NoInformation
from chainwatch.store.errors import LeaseLost, StoreError
from chainwatch.store.records import ChainRecord, IntentKind
from chainwatch.supervisor import watching
from chainwatch.supervisor.chain import ChainStep
from chainwatch.supervisor.configured import Configured
from chainwatch.supervisor.house import House
from chainwatch.supervisor.poll import Poller, Wanted
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.sight import Known, assign

LEASE_TTL = timedelta(minutes=5)
BLIND_AFTER = timedelta(minutes=15)
"""Without one good squeue for this long, people are told that chainwatch is blind."""
LOOK_BACK = timedelta(minutes=10)
"""How far before a doubtful submission its token is looked for in accounting."""
_RECENT_TOKENS = 5


class Supervisor:
    """One daemon's loop over its house."""

    def __init__(self, house: House, pollers: Mapping[str, Poller]) -> None:
        self.house = house
        self.pollers = pollers
        self._step = ChainStep(house)
        self._configured = Configured(house, self._step.traces)
        self._accounting: dict[str, bool] = {}
        self._blind_since: dict[str, datetime] = {}
        self.last_tick: datetime | None = None
        self._stopped: Callable[[], bool] = lambda: False
        self.observing = False
        """Slurm is being asked: nothing outside changes, so an exception may end it at any point."""

    # -- the loop

    def run(self, stopped: Callable[[], bool], between: Callable[[], None] = lambda: None) -> None:
        """Tick until `stopped()`. `between` is called after each tick (alerts, notifications, reload).

        Raises LeaseLost when another daemon took over, StoreError when the database fails: both mean stop.
        """
        self._stopped = stopped
        while not stopped():
            self.tick()
            between()
            if not stopped():
                self._sleep(self.pause(), stopped)

    def pause(self) -> timedelta:
        """Until the next tick: the shortest pause that any cluster's poller asks for."""
        return min((p.pause() for p in self.pollers.values()), default=self.house.config.poll)

    def _sleep(self, span: timedelta, stopped: Callable[[], bool]) -> None:
        """Sleep in pieces that keep the lease fresh and see a stop at once."""
        clock = self.house.clock
        end = clock.monotonic() + span.total_seconds()
        while not stopped() and (left := end - clock.monotonic()) > 0:
            clock.sleep(min(left, LEASE_TTL.total_seconds() / 4))
            self._renew()

    def _renew(self) -> None:
        assert self.house.lease is not None, "the loop acts under a lease"
        self.house.lease = self.house.store.renew_lease(self.house.lease, LEASE_TTL, self.house.clock.now())

    def _renew_in_time(self) -> None:
        """A pass over many chains whose storage is slow takes longer than the lease lasts."""
        lease = self.house.lease
        if lease is not None and lease.until - self.house.clock.now() < LEASE_TTL / 2:
            self._renew()

    # -- one tick

    def tick(self) -> None:
        """One pass over everything. A chain whose step fails is told about, and does not stop the others."""
        self._renew()
        now = self.house.clock.now()
        aside.settle(self.house.store, now)
        chains = self._chains()
        past = {c.name: self.house.store.attempts(c.name) for c in chains}
        kept = [c for c in chains if not c.released]
        incident, cohorts = self._together(kept, past, now)
        alive = watching.watches(kept)
        watching.settle_stall(self._step.traces, alive, now)
        for name, poller in self.pollers.items():
            mine = [c for c in chains if c.cluster == name]
            known = [self._known(c, past[c.name]) for c in mine]
            self.observing = True
            try:
                snapshot = poller.poll(lambda jobs, m=mine, k=known: self._wanted(jobs, m, k, past))  # type: ignore[misc]
            finally:
                self.observing = False
            self._renew()
            self._sight(name, snapshot, now)
            seen = assign(snapshot.jobs, known, short_instance(self.house.store.instance))
            for record in mine:
                if self._stopped():
                    return
                self._one(record, snapshot, seen.get(record.name, ()), incident, cohorts, alive)
                self._renew_in_time()
        self._homeless(kept, now)
        self.last_tick = now

    def _chains(self) -> list[ChainRecord]:
        """All chains, in step with the configuration."""
        chains = self.house.store.chains()
        return self.house.store.chains() if self._configured.adopt(self.house.config, chains) else chains

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
        incident: Incident | None,
        cohorts: Mapping[str, str],
        alive: Mapping[str, Watch],
    ) -> None:
        now = self.house.clock.now()
        scene = Scene(
            snapshot,
            jobs,
            incident=incident.sentence() if incident and record.name in incident.chains else "",
            cohort=cohorts.get(_template(record), ""),
            watches=alive,
            accounting=self._accounting.get(record.cluster, True),
        )
        try:
            self._step.take(record, scene)
        except (LeaseLost, StoreError):
            raise
        except Exception as e:  # noqa: BLE001 - one chain must not stop the others
            self._broken(record, e, now)

    def _broken(self, record: ChainRecord, error: Exception, now: datetime) -> None:
        """A step that fails is a fault of ours (or of the chain's settings): told once, and tried again next tick."""
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

    # -- what to ask Slurm for

    def _known(self, record: ChainRecord, attempts: Sequence[Attempt]) -> Known:
        settings = self.house.settings(record)
        ids: dict[int, datetime | None] = {a.job.job_id: a.job.attempt.submitted for a in attempts if a.verdict is None}
        last = attempts[-1] if attempts else None
        if last is not None:
            ids.setdefault(last.job.job_id, last.job.attempt.submitted)
        expected = record.facts.get("expected")
        if isinstance(expected, Mapping):
            ids[int(expected["job_id"])] = None
        array = record.facts.get("array")
        array = array if isinstance(array, Mapping) else {}
        intents = self.house.store.intents(record.name, last=_RECENT_TOKENS)
        rule: str | None = None
        over = record.released or record.desired is Desired.DONE or record.state is ChainState.DONE
        if not over and last is not None:
            watching = record.mode is Mode.OBSERVE or self.house.observe_only
            rule = "name+directory" if watching else "name+directory+command"
            if settings.resubmitter.by != "none":
                rule = settings.resubmitter.match
        return Known(
            chain=record.name,
            user=last.job.user if last else self.house.user,
            ids=ids,
            tokens=frozenset(i.token for i in intents if i.kind is IntentKind.SUBMIT),
            array_id=array.get("id"),
            array_task=None if array.get("task") is None else str(array["task"]),
            name=last.job.name if last else "",
            directory=last.job.directory if last else "",
            command=last.job.command if last else "",
            rule=rule,
            adopt_after=last.job.attempt.submitted if last else None,
        )

    def _wanted(
        self,
        jobs: Sequence[Job] | None,
        chains: Sequence[ChainRecord],
        known: Sequence[Known],
        past: Mapping[str, Sequence[Attempt]],
    ) -> Wanted:
        """Accounting is asked for attempts that are not over in our book and not alive in the queue, and for tokens of
        submissions whose outcome is not known."""
        live = {j.attempt for j in jobs or () if not j.state.terminal}
        listed = {j.job_id for j in jobs or ()} | {j.array_job_id for j in jobs or ()}
        ids: set[int] = set()
        nodes: set[str] = set()
        since: datetime | None = None
        for record in chains:
            for attempt in () if record.released else past[record.name]:
                if attempt.verdict is None and attempt.job.attempt not in live:
                    ids.add(attempt.job.job_id)
                    nodes.update(attempt.job.nodes)
            expected = record.facts.get("expected")
            if isinstance(expected, Mapping) and expected["job_id"] not in listed and not record.released:
                ids.add(int(expected["job_id"]))
            for intent in self.house.store.open_intents(record.name):
                if intent.kind is IntentKind.SUBMIT and intent.tried_at is not None:
                    moment = intent.tried_at - LOOK_BACK
                    since = moment if since is None or moment < since else since
        released = {record.name for record in chains if record.released}
        tokens = {t for k in known if k.chain not in released for t in k.tokens}
        met = {a.job.attempt for attempts in past.values() for a in attempts}
        for job in jobs or ():
            if job.state.terminal and job.attempt not in met and any(t in job.comment for t in tokens):
                ids.add(job.job_id)
                nodes.update(job.nodes)
        return Wanted(ids=sorted(ids), since=since, nodes=sorted(nodes))

    def _sight(self, cluster: str, snapshot: Snapshot, now: datetime) -> None:
        """Tell people when Slurm has been silent for long, and when it speaks again."""
        store = self.house.store
        key = f"blind:{cluster}"
        if snapshot.knows(Source.QUEUE):
            self._blind_since.pop(cluster, None)
            store.recover(key, now)
            if cluster not in self._accounting:
                try:
                    self._accounting[cluster] = self.pollers[cluster].backend.info().accounting
                except NoInformation:
                    pass
            return
        since = self._blind_since.setdefault(cluster, now)
        if now - since >= BLIND_AFTER:
            why = snapshot.failed.get(Source.QUEUE, "")
            store.owe(
                None,
                key,
                "critical",
                f"{cluster}: Slurm has not answered for {int((now - since).total_seconds() // 60)} minutes",
                body(Kind.BLIND, why=why, did="nothing: silence is never read as an answer", command="scontrol ping"),
                now,
            )

    # -- chains failing together

    def _together(
        self, chains: Sequence[ChainRecord], past: Mapping[str, Sequence[Attempt]], now: datetime
    ) -> tuple[Incident | None, dict[str, str]]:
        last: dict[str, Attempt] = {}
        for record in chains:
            judged = [a for a in past[record.name] if a.verdict is not None]
            waits = record.state in {ChainState.RECOVERING, ChainState.WAITING, ChainState.RESTING, ChainState.STOPPED}
            retried = bool(judged) and over_before(judged[-1], record.retried_at)
            if judged and waits and not retried:
                last[record.name] = judged[-1]
        templates = {record.name: _template(record) for record in chains}
        cohorts = find_cohorts({name: (templates[name], attempt) for name, attempt in last.items()})
        incident = find_incident(last, now)
        if incident is not None:
            self.house.store.owe(
                None, incident.key, "critical", f"incident: {incident.sentence()}",
                body(Kind.INCIDENT, why=incident.sentence(), did="the chains wait and return spread out; no node is blamed"),
                now,
            )  # fmt: skip
        for template, line in cohorts.items():
            self.house.store.owe(
                None, f"cohort:{template}:{line[:80]}", "critical", f"the same failure stopped the chains of {template}",
                body(Kind.PERSON, line=line, wants="mend it once", command="chainwatch retry --cohort CHAIN"), now,
            )  # fmt: skip
        return incident, cohorts


def _template(record: ChainRecord) -> str:
    return str(record.settings.get("template") or record.settings.get("batch") or record.name)


__all__ = ["LEASE_TTL", "Supervisor"]
