"""A whole daemon over a simulated cluster: it ticks, dies, is started again, and is watched after every step."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from chainwatch.actions import resume_file
from chainwatch.actions.tag import find
from chainwatch.config.models import Chain, Config, HandOver
from chainwatch.model.chain import ChainState, Desired
from chainwatch.model.job import JobState
from chainwatch.simulation import (
    FaultPlan,
    Reach,
    Recipe,
    ResumeRule,
    Settings,
    SimulatedBackend,
    SimulatedCluster,
    SiteResubmitter,
    Training,
    VirtualClock,
)
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.runs import Run
from chainwatch.simulation.training import MARK, RESUME_VARIABLE
from chainwatch.slurm.backend import Backend, Refusal, Refused, Submission
from chainwatch.store.records import ChainRecord
from chainwatch.store.store import open_store
from chainwatch.supervisor.house import House
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller
from tests.simulation.world.mirror import MirroredDisk
from tests.simulation.world.mortal import Killed, MortalAudit, MortalStore, Reaper, mortal_files
from tests.simulation.world.plan import ChainPlan, Event, Happening, Plan
from tests.simulation.world.readers import SimulatedReaders

POLL = timedelta(seconds=60)
CALM = 900.0
"""How long a daemon is left asleep while no job of any chain starts, ends or is touched: a tick would change nothing."""
RULES = {
    HandOver.COMMAND: ResumeRule.LATEST,
    HandOver.FILE: ResumeRule.RESUME_FILE,
    HandOver.POINTER: ResumeRule.POINTER,
    HandOver.SET_ASIDE: ResumeRule.HIGHEST,
    HandOver.VARIABLE: ResumeRule.GIVEN,
}


@dataclass
class Told:
    """One alert that reached people."""

    at: float
    chain: str | None
    key: str
    title: str
    severity: str


@dataclass
class Tale:
    """One chain of the history, with everything that is true about it."""

    name: str
    plan: ChainPlan
    script: str
    directory: str
    training: Training
    disk: MirroredDisk
    settings: Chain
    site: SiteResubmitter | None = None
    rotted: list[tuple[float, str]] = field(default_factory=list)
    touched: list[tuple[float, Happening]] = field(default_factory=list)
    """What people did to it."""

    def ours(self, job_id: int, comment: str) -> bool:
        """The daemon submitted it. (The site's script may copy our tag.)"""
        tag = find(comment)
        copied = self.site is not None and (job_id in self.site.submitted or self.site.submitting)
        return tag is not None and tag.chain == self.name and not copied


class World:
    """One history being played."""

    def __init__(self, plan: Plan, template: Path) -> None:
        self.plan = plan
        self.root = Path(tempfile.mkdtemp(prefix="chainwatch-world-", dir=_fast()))
        self.clock = VirtualClock()
        self.start = self.clock.time
        settings = Settings(
            release=plan.release,
            min_job_age=plan.min_job_age,
            accounting_lag=(0.02, plan.accounting_lag),
            completing=plan.completing,
            first_job_id=plan.first_job_id,
            max_job_id=plan.max_job_id,
        )
        self.cluster = SimulatedCluster(self.clock, self.settings(settings), plan.seed)
        self.reaper = Reaper(plan.deaths)
        self.backend = SimulatedBackend(self.cluster, FaultPlan(plan.faults), self.reaper.pass_by)
        self.asked: Backend = self.backend
        """What the daemon talks to."""
        self.random = random.Random(plan.seed)
        self.audit = MortalAudit(self.reaper)
        self.sentences: list[tuple[float, str, str]] = []
        self.told: list[Told] = []
        self.alerts_work = True
        self.tick_began = self.start
        self.ticked_calls = 0
        """Index of the first backend call of the last tick."""
        self.up_since: float | None = None
        """Since when the daemon works without a death."""
        self.ends: list[tuple[float, str]] = []
        self.cluster.on_end(self._end)
        self.cluster.controller.starts.append(self.clock.wake)
        self.cluster.controller.arrivals.append(self._arrives)
        self.doubled: list[str] = []
        """Submissions of the daemon that met a living job of their chain which the daemon itself had submitted."""
        self.tales = {t.name: t for t in (self._tale(i, c) for i, c in enumerate(plan.chains))}
        self.trainings = {name: tale.training for name, tale in self.tales.items()}
        self.config = Config(
            state=self.root / "state", poll=POLL, chains={n: t.settings for n, t in self.tales.items()}
        )
        (self.root / "state").mkdir(mode=0o700)
        shutil.copy(template, self.root / "state" / "chainwatch.db")
        opened = open_store(self.root / "state")
        self.store = MortalStore(opened.engine, opened.where, opened.file)
        self.store.reaper = self.reaper
        self.supervisor: Supervisor | None = None
        for event in sorted(plan.events, key=lambda e: e.at):
            self.clock.at(self.start + event.at, self._happens(event))

    # -- playing ----------------------------------------------------------------------------------------------------

    def play(self, check: Callable[[World], None], patience: float = 72 * 3600.0) -> None:
        """The whole history, then everything healed, until every chain is done or waits for a person.

        `check` is called after every tick and every death.
        """
        self.reaper.enabled = False
        self._begin()
        self.reaper.enabled = True
        with mortal_files(self.reaper):
            last = max((e.at + e.seconds for e in self.plan.events), default=0.0)
            while self.clock.time < self.start + self.plan.hours * 3600:
                self._step(check)
                if self.clock.time > self.start + last and self.settled():
                    break
            self.heal()
            end = self.clock.time + patience
            for _ in range(4):
                self._step(check)
                while self.clock.time < end and not self.settled():
                    self._step(check)
                self.answer()

    def settled(self) -> bool:
        """Every chain is done or quiet, people know, and nothing lives on."""
        quiet = all(r.state.quiet and r.state is not ChainState.NEW for r in self.store.chains())
        return quiet and not any(self.live(name) for name in self.tales) and not self.store.undelivered()

    def heal(self) -> None:
        """All that was broken works again; nobody dies any more."""
        self.reaper.enabled = False
        self.backend.faults.faults = ()
        cluster = self.cluster
        cluster.start_controller()
        cluster.start_accounting()
        cluster.database.slow(0)
        cluster.authentication, cluster.refusal, self.alerts_work = True, None, True
        for node in cluster.controller.nodes.values():
            node.faulty = False
            if not node.usable:
                cluster.restore(node.name)
        for tale in self.tales.values():
            tale.disk.hangs = False
        for job in cluster.jobs:
            if job.pending and job.held:
                with suppress(Refused):
                    cluster.controller.release(job.job_id, admin=True)

    def answer(self) -> None:
        """People do what people do when a chain waits for them: mend what ails it, and say retry."""
        for tale in self.tales.values():
            record = self.store.chain(tale.name)
            if record is not None and record.state in {ChainState.RESTING, ChainState.STOPPED}:
                tale.training.met.update({fault: 1_000_000 for fault in tale.plan.faults if fault.times is not None})
                tale.touched.append((self.clock.time, Happening.RETRY))
                self.store.update_chain(tale.name, retried_at=self.clock.now())

    def close(self) -> None:
        """Give everything back."""
        self.store.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _begin(self) -> None:
        self._start_daemon()
        assert self.supervisor is not None
        self.supervisor.tick()
        for name in self.tales:
            self.store.update_chain(name, retried_at=self.clock.now())  # `chainwatch submit`

    def _step(self, check: Callable[[World], None]) -> None:
        try:
            if self.supervisor is None:
                self._start_daemon()
            self._tick()
            check(self)
            if self.supervisor is None:  # it was told to stop
                self.clock.sleep(self.plan.downtime)
            else:
                self._rest()
        except Killed:
            self.supervisor, self.up_since = None, None
            check(self)
            self.clock.sleep(self.plan.downtime)

    def _tick(self) -> None:
        assert self.supervisor is not None
        self.tick_began, self.ticked_calls = self.clock.time, len(self.backend.calls)
        self.supervisor.tick()
        now = self.clock.now()
        if self.alerts_work:
            for notice in self.store.due_notices(now):
                self.reaper.pass_by("alert:before")
                self.told.append(Told(self.clock.time, notice.chain, notice.key, notice.title, notice.severity))
                self.store.delivered(notice.id, now)

    def _rest(self) -> None:
        assert self.supervisor is not None
        pause = self.supervisor.pause().total_seconds()
        calm = all(self._runs_calmly(r) for r in self.store.chains())
        before = self.clock.monotonic()
        self.clock.sleep(max(pause, CALM) if calm else pause)
        passed = self.clock.monotonic() - before
        if passed < pause:  # woken by something: the daemon itself would not notice before its next poll
            self.clock.advance(self.random.uniform(0, pause - passed))

    def _runs_calmly(self, record: ChainRecord) -> bool:
        jobs = self.live(record.name)
        if not jobs:
            return record.state.quiet
        same = {JobState.RUNNING: ChainState.RUNNING, JobState.PENDING: ChainState.PENDING}
        standby = self.tales[record.name].plan.standby and record.step is not None  # it was queued, or will not be
        behind = [j for j in jobs[1:] if standby and j.pending]
        alone = len(jobs) == 1 + len(behind) and jobs[0].preempted_at is None and not jobs[0].completing
        return alone and record.state is same.get(jobs[0].state) and self.healthy()

    def healthy(self) -> bool:
        """Slurm answers, in full."""
        return self.cluster.reach is Reach.UP and self.cluster.authentication and self.cluster.database.up

    def _start_daemon(self) -> None:
        lease = self.store.acquire_lease("login1:1", LEASE_TTL, self.clock.now(), force_dead_check=lambda holder: True)
        house = House(
            store=self.store,
            lease=lease,
            state=self.root / "state",
            config=self.config,
            backends={self.asked.name: self.asked},
            readers=SimulatedReaders(self.trainings),
            clock=self.clock,
            audit=self.audit,  # type: ignore[arg-type]
            user="ada",
            say=lambda sentence, record, facts: self.sentences.append((self.clock.time, record.name, sentence)),
            read_script=lambda path: self.cluster.content(path),
            environment=lambda record, settings: (("HOME", "/home/ada"),),
        )
        poller = Poller(self.asked, self.clock, "ada", POLL, self.random)
        self.supervisor = Supervisor(house, {self.asked.name: poller})
        self.up_since = self.clock.time

    # -- looking ----------------------------------------------------------------------------------------------------

    def live(self, chain: str) -> list[SimJob]:
        """Jobs of a chain that wait, run or complete, as they truly are."""
        script = self.tales[chain].script
        return [j for j in self.cluster.jobs if j.request.script == script and not j.ended]

    def runs(self, chain: str) -> list[Run]:
        """The chain's attempts as they truly were."""
        return [r for r in self.cluster.runs if r.script == self.tales[chain].script]

    def trace(self) -> str:
        """What was said and what happened, for a failing history."""
        lines = [(at, f"{name}: {sentence}") for at, name, sentence in self.sentences]
        lines += [(c.at.timestamp(), f"    {c.method}{_short(c.arguments)} -> {c.outcome} {c.result or ''}")
                  for c in self.backend.calls if c.method in {"submit", "cancel", "hold", "release", "requeue"}]  # fmt: skip
        lines += [(t.at, f"  alert {t.key}: {t.title}") for t in self.told]
        lines += self.ends
        lines += [
            (self.start + e.at, f"  ** {e.what.name} {e.target} {e.seconds:g}s {e.flag}") for e in self.plan.events
        ]
        lines += [(r.started, f"  run of {r.script} starts as {r.job_id} on {','.join(r.nodes)}")
                  for r in self.cluster.runs]  # fmt: skip
        return "\n".join(f"{_clock(at - self.start)} {text}" for at, text in sorted(lines, key=lambda x: x[0]))

    def _arrives(self, job: SimJob) -> None:
        for tale in self.tales.values():
            if job.request.script == tale.script and tale.ours(job.job_id, job.request.comment):
                others = [j.job_id for j in self.live(tale.name) if tale.ours(j.job_id, j.request.comment)]
                others.remove(job.job_id)
                if set(others) - _waited_for(job.request.dependency):
                    self.doubled.append(f"job {job.job_id} of {tale.name} was submitted while {others} lived")

    def _end(self, job: SimJob) -> None:
        self.ends.append((self.clock.time, f"  job {job.job_id} of {job.request.script} ended ({job.state})"))
        self.clock.wake()

    # -- making -----------------------------------------------------------------------------------------------------

    def settings(self, planned: Settings) -> Settings:
        """How the cluster is built."""
        return planned

    def directory(self, name: str) -> str:
        """Where the jobs of a chain run."""
        return f"/home/ada/{name}"

    def _tale(self, number: int, plan: ChainPlan) -> Tale:
        name = f"run{number}"
        script, directory = f"/home/ada/{name}.sh", self.directory(name)
        disk = MirroredDisk(self.clock, self.root / name)
        recipe = Recipe(
            final_step=plan.final_step,
            resume=RULES[plan.hand_over],
            on_term=plan.on_term,
            teardown_crash=plan.teardown_crash,
            hides_exit=plan.hides_exit,
            faults=plan.faults,
            save_every=300,
            steps_per_second=0.5,
        )
        nodes = self.cluster.controller.nodes
        training = Training(recipe, disk, lambda node: nodes[node].faulty, _read_resume_file)
        job_name = name if plan.unique_name else "train"
        limit = f" --time={plan.time_limit}" if plan.time_limit else ""
        content = f"#!/bin/bash\n#SBATCH --qos={plan.qos} --exclusive --job-name={job_name}{limit}\nsrun train\n"
        self.cluster.add_script(script, training, content.encode())
        settings = Chain.model_validate(
            {
                "batch": script,
                "directory": directory,
                "environment": "clean",
                "sbatch": ["--no-requeue"] if plan.no_requeue or plan.hand_over is HandOver.VARIABLE else [],
                "checkpoints": {
                    "directory": str(disk.root),
                    "hand_over": plan.hand_over,
                    "variable": RESUME_VARIABLE,
                },
                "done": {"step": plan.final_step, "mark": MARK},
                "logs": {"progress": r"step (?P<step>\d+)"},
                "resubmitter": "none" if plan.site_delay is None else "site",
                "standby": plan.standby,
            }
        )
        tale = Tale(name, plan, script, directory, training, disk, settings)
        if plan.site_delay is not None:
            delay = plan.site_delay
            states = {JobState.PREEMPTED} | ({JobState.CANCELLED} if plan.site_minds_cancelled else set())
            tale.site = SiteResubmitter(
                self.cluster, script, disk, lambda: delay, frozenset(states), copies_comment=plan.site_copies_comment
            )
        return tale

    # -- what happens -----------------------------------------------------------------------------------------------

    def _happens(self, event: Event) -> Callable[[], None]:
        names, tales = list(self.cluster.controller.nodes), list(self.tales.values())
        node, tale = names[event.target % len(names)], tales[event.target % len(tales)]
        later = lambda undo: self.clock.after(event.seconds, undo)  # noqa: E731
        cluster, controller = self.cluster, self.cluster.controller

        def for_a_while(do: Callable[[], None], undo: Callable[[], None]) -> None:
            do()
            later(undo)

        def to_job(do: Callable[[SimJob], None]) -> None:
            if cluster.reach is not Reach.UP or not self.live(tale.name):
                return
            tale.touched.append((self.clock.time, event.what))
            first = tale.plan.standby and not event.flag  # the one that runs, and not the one that stands by
            with suppress(Refused):
                do(self.live(tale.name)[0 if first else -1])

        def happen() -> None:
            match event.what:
                case Happening.PREEMPT:
                    to_job(lambda job: cluster.preempt(job.job_id))
                case Happening.OCCUPY:
                    cluster.occupy(1 + event.target, event.seconds)
                case Happening.NODE_DIES:
                    for_a_while(lambda: cluster.kill_node(node, power=event.flag), lambda: cluster.restore(node))
                case Happening.NODE_DOWN:
                    for_a_while(lambda: cluster.set_down(node, "bad memory"), lambda: cluster.restore(node))
                case Happening.DRAIN:
                    for_a_while(lambda: cluster.drain(node, "maintenance"), lambda: cluster.restore(node))
                case Happening.SICK_NODE:
                    sick = controller.nodes[node]
                    for_a_while(lambda: setattr(sick, "faulty", True), lambda: setattr(sick, "faulty", False))
                case Happening.CONTROLLER_DOWN:
                    for_a_while(cluster.stop_controller, cluster.start_controller)
                case Happening.CONTROLLER_FROZEN:
                    cluster.freeze_controller()
                    if event.flag:
                        later(cluster.stop_controller)
                    self.clock.after(event.seconds + 60 * event.flag, cluster.start_controller)
                case Happening.ACCOUNTING_DOWN:
                    for_a_while(cluster.stop_accounting, cluster.start_accounting)
                case Happening.ACCOUNTING_LATE:
                    for_a_while(lambda: cluster.database.slow(event.seconds), lambda: cluster.database.slow(0))
                case Happening.MUNGE_DOWN:
                    for_a_while(
                        lambda: setattr(cluster, "authentication", False),
                        lambda: setattr(cluster, "authentication", True),
                    )
                case Happening.STORAGE_HANGS:
                    for_a_while(lambda: setattr(tale.disk, "hangs", True), lambda: setattr(tale.disk, "hangs", False))
                case Happening.REFUSED:
                    refusal = Refused("sbatch: error: QOSMaxSubmitJobPerUserLimit", Refusal.WAIT)
                    for_a_while(lambda: setattr(cluster, "refusal", refusal), lambda: setattr(cluster, "refusal", None))
                case Happening.CANCELLED:
                    to_job(lambda job: cluster.cancel(job.job_id))
                case Happening.ADMIN_CANCELLED:
                    to_job(lambda job: cluster.cancel(job.job_id, "root"))
                case Happening.HELD:
                    self._hold(tale, event, later)
                case Happening.REQUEUED:
                    to_job(lambda job: controller.requeue(job.job_id))
                case Happening.LAUNCH_FAILS:
                    to_job(lambda job: controller.requeue(job.job_id, hold=True, reason="launch failed requeued held"))
                case Happening.RESUBMITTED:
                    self._resubmit_by_hand(tale)
                case Happening.ROT:
                    best = tale.disk.newest_intact()
                    if best is not None:
                        tale.rotted.append((self.clock.time, best.path))
                        tale.disk.rot(best.path)
                case Happening.ALERTS_DOWN:
                    for_a_while(lambda: setattr(self, "alerts_work", False), lambda: setattr(self, "alerts_work", True))
                case Happening.PAUSE:
                    self._wish(tale, Desired.PAUSE)
                    later(lambda: self._wish(tale, Desired.RUN))
                case Happening.RETRY:
                    tale.touched.append((self.clock.time, event.what))
                    self.command(lambda: self.store.update_chain(tale.name, retried_at=self.clock.now()))
                case Happening.RESTART:
                    pass  # see `_step`: the next tick is made by a fresh daemon
            if event.what is Happening.RESTART:
                self.supervisor = None
            self.clock.wake()

        return happen

    def _hold(self, tale: Tale, event: Event, later: Callable[[Callable[[], None]], object]) -> None:
        waiting = [j for j in self.live(tale.name) if j.pending]
        if waiting and self.cluster.reach is Reach.UP:
            job = waiting[0]
            self.cluster.controller.hold(job.job_id, "admin" if event.flag else "user")

            def release() -> None:
                with suppress(Refused):
                    self.cluster.controller.release(job.job_id, admin=True)

            later(self.cluster.controller.later(release))

    def _resubmit_by_hand(self, tale: Tale) -> None:
        """The user does it as users do: the same script from the same directory, when no job of it is there."""
        begun = bool(self.runs(tale.name))
        if begun and self.cluster.reach is Reach.UP and not self.live(tale.name) and not tale.disk.finished:
            tale.touched.append((self.clock.time, Happening.RESUBMITTED))
            best = tale.disk.newest_intact()
            environment = ((RESUME_VARIABLE, best.path if best else ""),)
            environment += (("CHAINWATCH_RESUME_FILE", str(resume_file.path_of(self.root / "state", tale.name))),)
            with suppress(Refused):
                self.cluster.submit(Submission(tale.script, directory=tale.directory, environment=environment), "ada")

    def _wish(self, tale: Tale, desired: Desired) -> None:
        tale.touched.append((self.clock.time, Happening.PAUSE))
        self.command(lambda: self.store.update_chain(tale.name, desired=desired, desired_at=self.clock.now()))

    def command(self, command: Callable[[], object]) -> None:
        """A person's command: another process, which does not die with the daemon."""
        was, self.reaper.enabled = self.reaper.enabled, False
        try:
            command()
        finally:
            self.reaper.enabled = was


@contextmanager
def played(plan: Plan, template: Path) -> Iterator[World]:
    """A world that is cleaned up behind."""
    world = World(plan, template)
    try:
        yield world
    finally:
        world.close()


def make_template(path: Path) -> Path:
    """An empty database of the present schema, to copy for each history."""
    store = open_store(path)
    assert store.file is not None
    target = path / "template.db"
    store.backup(target)
    store.close()
    return target


def _read_resume_file(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _waited_for(dependency: str) -> set[int]:
    """Jobs behind which a standby waits."""
    ids = [part.split(":")[1:] for part in dependency.split(",") if part.startswith("afterany:")]
    return {int(i) for some in ids for i in some}


def _fast() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _short(arguments: tuple[object, ...]) -> str:
    return str([a if not isinstance(a, Submission) else (a.script, a.options) for a in arguments])


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600):3d}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"


__all__ = ["Tale", "Told", "World", "datetime", "make_template", "played", "replace"]
