"""One step of one chain from inside its own job, for sites where no daemon may live.

At the head of the batch script it does what the loop would have done between the last job and this one, by the same
functions: the last job is judged, the next thing is decided, the checkpoints are set right, and the next job is queued
behind this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from chainwatch.actions import aside
from chainwatch.actions.tag import short_instance
from chainwatch.config.models import Chain, HandOver
from chainwatch.model.chain import ChainState, Desired, Rest, Resubmit, Stop, Wait
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job, Source
from chainwatch.recovery import Situation, decide
from chainwatch.store.records import ChainRecord, IntentKind
from chainwatch.supervisor import history, judging
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.asking import Asking
from chainwatch.supervisor.closing import Closing
from chainwatch.supervisor.doubtful import Doubtful
from chainwatch.supervisor.house import House
from chainwatch.supervisor.meeting import Meeting
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.sight import assign
from chainwatch.supervisor.standby import Standby
from chainwatch.supervisor.traces import ENDED_BY_US

LEASE_TTL = timedelta(minutes=5)
PATIENCE = timedelta(minutes=5)
"""How long a step waits for what is late: accounting, storage, a wait that was decided. The nodes are idle meanwhile."""
AGAIN = 5.0
"""Seconds between two looks."""


class Next(Enum):
    """What the job does now."""

    GO_ON = 0
    DONE = 1
    STOP = 3


@dataclass(frozen=True, slots=True)
class Told:
    """The answer of a step, with its reason for people."""

    next: Next
    why: str


class NotOurs(Exception):
    """The job is none of this chain, or the chain cannot be looked after from inside; one sentence."""


class Stepping:
    """Takes a step for the chain of the job in which it runs. The house holds the lease."""

    def __init__(self, house: House, poller: Poller) -> None:
        self.house = house
        self._poller = poller
        self._acting = Acting(house)
        self._traces = self._acting.traces
        self._closing = Closing(self._acting)
        self._doubtful = Doubtful(self._acting)
        self._standby = Standby(self._acting)
        self._meeting = Meeting(self._acting, self._standby)
        self._asking = Asking(house)

    def take(self, name: str, job_id: int, patience: timedelta = PATIENCE) -> Told:
        """Look until the answer is known, or patience ends: then the job goes on, since it has its nodes.

        Raises NotOurs, LeaseLost, StoreError.
        """
        clock, store = self.house.clock, self.house.store
        aside.settle(store, clock.now())
        end = clock.monotonic() + patience.total_seconds()
        while True:
            told = self._look(name, job_id, last=clock.monotonic() >= end)
            if told is not None:
                return told
            clock.sleep(AGAIN)
            if self.house.lease is not None:
                self.house.lease = store.renew_lease(self.house.lease, LEASE_TTL, clock.now())

    def _look(self, name: str, job_id: int, *, last: bool) -> Told | None:
        store = self.house.store
        record = store.chain(name)
        if record is None:
            raise NotOurs(f"no chain is named {name} in {self.house.state}")
        settings = self.house.settings(record)
        if settings.checkpoints and settings.checkpoints.hand_over in {HandOver.VARIABLE, HandOver.ARGUMENT}:
            raise NotOurs(
                f"hand_over: {settings.checkpoints.hand_over} is fixed at submission, and the next job is submitted before "
                "this one has saved: use command, file, pointer or set_aside"
            )
        attempts = store.attempts(name)
        still_open = {name: store.open_intents(name)}
        known = self._asking.known(record, attempts, still_open[name])
        snapshot = self._poller.poll(
            lambda jobs: self._asking.wanted(jobs, [record], [known], {name: attempts}, still_open)
        )
        jobs = assign(snapshot.jobs, [known], short_instance(store.instance)).get(name, ())
        job = next((j for j in jobs if j.job_id == job_id and j.state.on_nodes), None)
        if job is None:
            if not last:
                return None
            if snapshot.knows(Source.QUEUE):
                raise NotOurs(f"job {job_id} is none of the chain {name}")
            return self._alone(record, job_id, snapshot.failed.get(Source.QUEUE, "squeue gave no answer"))
        return self._decide(record, settings, job, Scene(snapshot, jobs), last=last)

    def _decide(self, record: ChainRecord, settings: Chain, job: Job, scene: Scene, *, last: bool) -> Told | None:
        now = self.house.clock.now()
        place = Place(record.name, settings, self._acting.directory(record, settings))
        record = self._meeting.meet(record, scene, now)
        self._doubtful.settle(record, scene, now)
        record = self._closing.close_requeued(self._traces.again(record), settings, place, scene, now)
        past = history.of(self.house, record, now)
        before = tuple(a for a in past.attempts if a.job.attempt != job.attempt and a.job.start is not None)
        if any(a.verdict is None for a in before) and not last:
            return None  # accounting or the storage is late
        before = tuple(a for a in before if a.verdict is not None)
        previous = before[-1] if before else None
        if previous is not None and history.is_done(previous, record):
            record = self._traces.with_note(record, ENDED_BY_US, job.attempt, history.SURPLUS)
            record = self._acting.done(record, previous, now)
            return Told(Next.DONE, record.sentence)
        if record.desired is Desired.DONE:
            return Told(Next.DONE, f"done by a person's word: {record.desired_why or '-'}")
        if record.desired in {Desired.PAUSE, Desired.STOP} and not _pause_is_over(record, self.house):
            return Told(Next.STOP, f"a person said {record.desired}: {record.desired_why or '-'}")
        report = self.house.readers.checkpoints(
            place, settle=judging.settle_after(previous.job, settings) if previous else timedelta(0)
        )
        decision = decide(
            Situation(
                settings=settings,
                history=replace(past, attempts=before, submissions_last_hour=0),
                checkpoints=report if isinstance(report, RunReport) else None,
                now=now,
                partition_size=self._acting.partitions.size(record.cluster, past, now),
                target=record.target,
            )
        )
        if isinstance(decision, Wait) and not last:
            return None
        if isinstance(decision, (Rest, Stop)):
            record = self._traces.rest(record, decision, previous, now)
            return Told(Next.STOP, record.sentence)
        self._acting.right.set_right(record, settings, place, now, None)
        follows = self._follow(record, settings, place, job, scene)
        if not follows and not last and self._in_doubt(record):
            return None
        bad = sorted(set(decision.exclude) & set(job.nodes)) if isinstance(decision, Resubmit) else []
        if bad and follows:
            return Told(Next.STOP, f"the chain keeps away from {', '.join(bad)}{follows}")
        why = decision.why if not isinstance(decision, Wait) else f"waited long enough ({decision.why})"
        self._traces.state(record, ChainState.RUNNING, f"job {job.shown_id} is running{follows}", now)
        return Told(Next.GO_ON, f"{why}{follows}")

    def _in_doubt(self, record: ChainRecord) -> bool:
        return any(i.kind is IntentKind.SUBMIT for i in self.house.store.open_intents(record.name))

    def _follow(self, record: ChainRecord, settings: Chain, place: Place, job: Job, scene: Scene) -> str:
        """Queue the next job behind this one; what is to be said of it, empty where there will be none."""
        now = self.house.clock.now()
        behind = self._standby.behind(record, [j for j in scene.jobs if not j.state.terminal])
        if behind is not None:
            return f"; job {behind.shown_id} stands by"
        if self._standby.made(record, job, now):
            return ""  # a person cancelled it
        past = history.of(self.house, record, now)
        decision = self._standby.ahead(record, settings, past, now)
        follows = ""
        if isinstance(decision, Resubmit) and self.house.may_act(record):
            follows = self._standby.queue(record, settings, place, past, decision, job, now, by="step")
        if not follows and not self._in_doubt(record):
            why = (
                decision.why if not isinstance(decision, Resubmit) else "it could not be submitted (see the job's log)"
            )
            self._tell_last(record, job.shown_id, why)
        return follows

    def _alone(self, record: ChainRecord, job_id: int, why: str) -> Told:
        self._tell_last(record, str(job_id), why)
        return Told(
            Next.GO_ON, f"Slurm gives no answer ({why}): nothing was judged, and no job is queued behind this one"
        )

    def _tell_last(self, record: ChainRecord, shown: str, why: str) -> None:
        """Nobody looks after the chain once this job is over: somebody must know."""
        now = self.house.clock.now()
        with self.house.store.transaction(self.house.lease):
            self._traces.owe(
                record, f"last:{shown}", "warning", f"{record.name}: no job is queued behind job {shown}", now, why=why,
                wants="submit the next one when this one is over",
                command=f"chainwatch retry {record.name} && chainwatch run --once CONFIG",
            )  # fmt: skip


def beside_a_daemon(house: House, name: str, job_id: int, sleep: Callable[[float], None]) -> Told:
    """A daemon looks after the chain: wait for its verdict on the last job, and decide nothing."""
    clock, store = house.clock, house.store
    end = clock.monotonic() + PATIENCE.total_seconds()
    while True:
        record = store.chain(name)
        if record is None:
            raise NotOurs(f"no chain is named {name} in {house.state}")
        if record.desired is Desired.DONE:
            return Told(Next.DONE, f"done by a person's word: {record.desired_why or '-'}")
        if record.desired is Desired.STOP:
            return Told(Next.STOP, f"a person said stop: {record.desired_why or '-'}")
        attempts = history.without_duplicates(store.attempts(name), record)
        before = [a for a in attempts if a.job.job_id != job_id and a.job.start is not None]
        if len(before) < len(attempts) and all(a.verdict is not None for a in before):
            if before and history.is_done(before[-1], record):
                return Told(Next.DONE, "the chain is done")
            return Told(Next.GO_ON, "a daemon looks after the chain")
        if clock.monotonic() >= end:
            return Told(Next.GO_ON, "a daemon looks after the chain, and has not judged the last job yet")
        sleep(2.0)


def _pause_is_over(record: ChainRecord, house: House) -> bool:
    until = record.desired_until
    return record.desired is Desired.PAUSE and until is not None and house.clock.now() >= until
