"""A job that hangs is looked at, and ended only where that is switched on, called for, and sure; whatever dies meanwhile."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.cli.status import explain
from chainwatch.config.models import Chain, Config
from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Step
from chainwatch.model.probe import NodeLook, ProbeReport, Rank, RankState
from chainwatch.model.verdict import Cause, Outcome, Progress
from chainwatch.recovery.hanging import TIMES_ALERT
from chainwatch.slurm.backend import NoInformation, Refusal, Refused, Submission
from chainwatch.store import Store, open_store
from chainwatch.store.records import ChainRecord, IntentKind, IntentStatus, Origin
from chainwatch.supervisor.house import House
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller
from tests.alerts.conftest import FakeClock
from tests.simulation.world.mortal import Killed, MortalAudit, MortalStore, Reaper
from tests.supervisor.jobs import NOW, queued
from tests.supervisor.test_watching import Cluster, Runs

PASS = timedelta(minutes=10)
ALERT = 2
"""Passes of silence."""
TELLS = {"alert_after": "20m"}
ENDS = {**TELLS, "end_job": True, "grace": "15m"}


def report(stopped: int | None = 5, state: RankState = RankState.STOPPED) -> ProbeReport:
    """Eight ranks on two nodes, of which one is in that state."""
    ranks = [
        Rank(n, "0", n, "python", state if n == stopped else RankState.RUNS, 1.0, 0, "", 4, 8) for n in range(8)
    ]  # fmt: skip
    return ProbeReport(
        (NodeLook("n1", tuple(ranks[:4])), NodeLook("n2", tuple(ranks[4:]))), stacks={5: "in all_reduce"}
    )


@dataclass
class Looks:
    """`Probes` whose reports are set by hand, and come one pass later."""

    gives: tuple[ProbeReport, ...] = (report(),)
    """In turn; none: no look ever comes back."""
    begun: list[tuple[datetime, bool]] = field(default_factory=list)
    clock: FakeClock | None = None
    waiting: set[AttemptId] = field(default_factory=set)

    def begin(self, cluster: str, job: Job, stacks: bool) -> None:
        assert self.clock is not None
        self.begun.append((self.clock.now(), stacks))
        self.waiting.add(job.attempt)

    def take(self, attempt: AttemptId) -> ProbeReport | None:
        if attempt not in self.waiting or not self.gives:
            return None
        self.waiting.discard(attempt)
        return self.gives[len(self.begun) % len(self.gives)]


class Queue(Cluster):
    """A queue in which scancel works, and a program that ignores signals."""

    def __init__(self, clock: FakeClock, reaper: Reaper) -> None:
        super().__init__()
        self.clock, self.reaper = clock, reaper
        self.cancelled: list[tuple[datetime, str | None]] = []
        self.submitted: list[Submission] = []
        self.refuses = self.mute = False

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        self.reaper.pass_by("cancel:before")
        if self.refuses:
            raise Refused("Access/permission denied", Refusal.PERSON)
        self.cancelled.append((self.clock.now(), signal))
        if signal is None and self.jobs and self.jobs[0].state is JobState.RUNNING:
            batch = Step("batch", JobState.CANCELLED, ExitCode(0, 15))
            self.jobs[0] = replace(
                self.jobs[0], state=JobState.CANCELLED, raw_state="CANCELLED by 1000", cancelled_by=1000,
                end=self.clock.now(), exit=ExitCode(0), steps=(batch,),
            )  # fmt: skip
        self.reaper.pass_by("cancel:after")
        if self.mute:
            raise NoInformation("scancel gave no answer within 60 s")

    def accounting(self, *words: Any, **more: Any) -> Sequence[Job]:
        return [job for job in self.jobs if job.state.terminal]

    def submit(self, submission: Submission) -> int:
        self.reaper.pass_by("submit:before")
        self.submitted.append(submission)
        comment = next(o for o in submission.options if o.startswith("--comment="))
        self.jobs.append(queued(JobState.PENDING, 90 + len(self.submitted), self.clock.now(), comment=comment))
        self.reaper.pass_by("submit:after")
        return 90 + len(self.submitted)


class Stage:
    """One chain that runs, on two nodes."""

    def __init__(self, root: Path, hang: dict[str, Any], deaths: tuple[int, ...] = ()) -> None:
        self.root, self.clock, self.runs, self.looks = root, FakeClock(NOW), Runs(), Looks()
        self.looks.clock = self.clock
        self.reaper = Reaper(deaths)
        self.reaper.enabled = False
        opened = open_store(root / "state")
        self.store: Store = MortalStore(opened.engine, opened.where, opened.file)
        self.store.reaper = self.reaper  # type: ignore[attr-defined]
        self.audit = MortalAudit(self.reaper)
        self.cluster = Queue(self.clock, self.reaper)
        script = root / "job.sh"
        script.write_text("#!/bin/bash\n")
        settings = Chain.model_validate({"batch": script, "hang": hang, "recovery": {"backoff": "1s"}})
        record = ChainRecord(
            "a", "alpha", Origin.SBATCH, Mode.ACT, settings.model_dump(mode="json"), NOW, state=ChainState.PENDING
        )
        self.store.add_chain(replace(record, facts={"expected": {"job_id": 7, "since": NOW.isoformat()}}))
        self.cluster.jobs.append(queued(start=NOW, nodes=("n1", "n2")))
        self.restart()
        for step in range(6):
            self.passes(1, step=step)
        self.reaper.enabled = True

    def restart(self) -> None:
        """A daemon's beginning: nothing in memory."""
        self.looks.waiting.clear()
        self.house = House(
            store=self.store, lease=self.store.acquire_lease("here:1", LEASE_TTL, self.clock.now()), state=self.root,
            config=Config(state=self.root, poll=PASS), backends={"alpha": self.cluster},  # type: ignore[dict-item]
            readers=self.runs, clock=self.clock, audit=self.audit, user="ada", uid=1000, probes=self.looks,
            environment=lambda record, chain: (),
        )  # fmt: skip
        poller = Poller(self.cluster, self.clock, "ada", PASS, random.Random(1))  # type: ignore[arg-type]
        self.supervisor = Supervisor(self.house, {"alpha": poller})

    def passes(self, count: int, step: int | None = None) -> None:
        """Passes, each after ten minutes; with `step` in the first of them it gets there."""
        for _ in range(count):
            self.clock.sleep(PASS.total_seconds())
            if step is not None:
                self.runs.life["a"] = Progress(step=step, life=str(step))
            try:
                self.supervisor.tick()
            except Killed:
                self.clock.sleep(LEASE_TTL.total_seconds() + 1)
                self.restart()

    def told(self, key: str) -> list[Any]:
        return [n for n in self.store.undelivered() if key in n.key and n.recovered is None]

    def record(self) -> ChainRecord:
        found = self.store.chain("a")
        assert found is not None
        return found

    def signals(self) -> list[str | None]:
        return [signal for _, signal in self.cluster.cancelled]

    def ends(self) -> list[Any]:
        return [i for i in self.store.intents("a") if i.kind is IntentKind.END]


@pytest.fixture
def stages() -> Iterator[Any]:
    made: list[Stage] = []
    fast = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="chainwatch-hanging-", dir=fast) as root:

        def make(hang: dict[str, Any], deaths: tuple[int, ...] = ()) -> Stage:
            own = Path(root) / str(len(made))
            own.mkdir()
            made.append(Stage(own, hang, deaths))
            return made[-1]

        yield make
        for stage in made:
            stage.store.close()


def test_by_default_a_silent_job_is_looked_at_once_told_with_what_was_seen_and_left_alone(
    stages: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = stages(TELLS)
    stage.passes(ALERT)
    assert len(stage.looks.begun) == 1
    assert stage.told("hang") == [], "the look is told with the silence"
    stage.passes(1)
    (notice,) = stage.told("hang")
    assert "rank 5 on n2 is stopped" in str(notice.body)
    assert "rank 5 on n2 is stopped" in stage.record().sentence
    explain("a", state=stage.root / "state")
    assert "UTC: rank 5 on n2 is stopped" in capsys.readouterr().out
    stage.passes(12)
    assert (len(stage.looks.begun), stage.cluster.cancelled, stage.ends()) == (1, [], [])
    assert [effect for _, effect, _, _ in stage.audit.notes] == ["probe"]
    stage.passes(1, step=999)
    assert stage.told("hang") == []
    assert stage.record().facts["probes"]["findings"] == []


def test_a_look_that_never_comes_back_holds_the_alert_no_longer_than_a_pass(stages: Any) -> None:
    stage = stages(TELLS)
    stage.looks.gives = ()
    stage.passes(ALERT)
    assert stage.told("hang") == []
    stage.passes(1)
    assert len(stage.told("hang")) == 1
    stage.passes(12)
    starts = [at for at, _ in stage.looks.begun]
    most = max(sum(timedelta(0) <= later - first < timedelta(hours=1) for later in starts) for first in starts)
    assert most == 3, "at most three looks an hour"


def test_in_mode_observe_nobody_looks_and_it_is_told_at_once(stages: Any) -> None:
    stage = stages(ENDS)
    stage.store.update_chain("a", mode=Mode.OBSERVE)
    stage.passes(ALERT * 4)
    assert len(stage.told("hang")) == 1
    assert (stage.looks.begun, stage.cluster.cancelled) == ([], [])


def test_a_hung_job_is_ended_after_twice_the_threshold_by_a_signal_and_then_scancel(stages: Any) -> None:
    stage = stages({**ENDS, "stacks": True})
    stage.passes(TIMES_ALERT * ALERT)
    assert stage.cluster.cancelled == []
    stage.passes(2)
    assert (len(stage.looks.begun), stage.signals()) == (2, ["TERM"])
    assert "ended" in str(stage.told("hung")[0].title)
    stage.passes(1)
    assert stage.signals() == ["TERM"], "the grace lasts"
    stage.passes(3)
    assert stage.signals() == ["TERM", None]
    (attempt,) = (a for a in stage.store.attempts("a") if a.verdict is not None)
    assert attempt.verdict is not None
    assert (attempt.verdict.outcome, attempt.verdict.cause) == (Outcome.HUNG, Cause.HANG)
    assert attempt.verdict.culprit_nodes == ("n2",)
    assert "rank 5 on n2 is stopped" in attempt.verdict.sentence
    (submission,) = stage.cluster.submitted
    assert any("--exclude=n2" in option for option in submission.options), submission.options
    (excluded,) = stage.store.excluded(stage.clock.now(), "a")
    assert excluded.node == "n2"
    assert excluded.until > stage.clock.now() + timedelta(hours=24)
    assert [i.status for i in stage.ends()] == [IntentStatus.DONE]
    assert "in all_reduce" in next(stage.root.glob("stacks/a/*/rank-5.txt")).read_text()
    assert all(stacks for _, stacks in stage.looks.begun)


@pytest.mark.parametrize(
    ("what", "gives"),
    [
        ("nothing differs", (report(None),)),
        ("what a long save looks like", (report(0, RankState.BLOCKED),)),
        ("the looks do not agree", (report(1), report(5))),
        ("nobody could look", (ProbeReport(refused="not permitted"),)),
    ],
)
def test_no_job_is_ended_where_the_looks_do_not_surely_name_the_same_node(
    stages: Any, what: str, gives: tuple[ProbeReport, ...]
) -> None:
    stage = stages(ENDS)
    stage.looks.gives = gives
    stage.passes(18)
    assert (stage.cluster.cancelled, stage.ends()) == ([], []), what
    assert len(stage.told("hang")) == 1
    assert len(stage.looks.begun) >= 3, "it is looked at again, as seldom as promised"


def test_life_that_returns_before_the_end_saves_the_job(stages: Any) -> None:
    stage = stages(ENDS)
    stage.passes(TIMES_ALERT * ALERT)
    stage.passes(1, step=500)
    stage.passes(TIMES_ALERT * ALERT - 1)
    assert stage.cluster.cancelled == []


def test_what_a_person_or_the_site_wants_comes_first(stages: Any) -> None:
    stage = stages(ENDS)
    stage.store.update_chain("a", desired=Desired.PAUSE)
    stage.passes(9)
    assert stage.cluster.cancelled == []
    stage.store.update_chain("a", desired=Desired.RUN)
    stage.passes(1)
    assert stage.signals() == ["TERM"]
    stage.house.site_pause = lambda: "maintenance"
    stage.passes(3)
    assert stage.signals() == ["TERM"], "the site paused every action in the grace"
    stage.house.site_pause = lambda: ""
    stage.passes(2)
    assert stage.signals() == ["TERM", None]


def test_a_refused_end_is_told_and_the_job_is_not_called_ended_by_us(stages: Any) -> None:
    stage = stages(ENDS)
    stage.cluster.refuses = True
    stage.passes(9)
    assert len(stage.told("hung-refused")) == 1
    assert [i.status for i in stage.ends()] == [IntentStatus.REFUSED]
    assert stage.record().facts["ended_by_us"] == {}


def test_a_scancel_without_an_answer_is_said_again_until_the_job_is_gone(stages: Any) -> None:
    stage = stages({**ENDS, "signal": "none"})
    stage.cluster.mute = True
    stage.passes(9)
    assert None in stage.signals()
    assert "TERM" not in stage.signals()
    assert [i.status for i in stage.ends()] == [IntentStatus.DONE]
    assert stage.store.attempts("a")[0].verdict.cause is Cause.HANG  # type: ignore[union-attr]


@pytest.mark.slow
def test_wherever_the_daemon_dies_the_signal_is_sent_at_most_once_and_the_end_is_a_hang(stages: Any) -> None:
    """Every fourth point between two effects; each of them with CHAINWATCH_HISTORIES, as `make never` sets it."""
    points, died = 0, set()
    for point in range(1, 400, 1 if os.environ.get("CHAINWATCH_HISTORIES") else 4):
        stage = stages(ENDS, (point,))
        stage.passes(11)
        if not stage.reaper.deaths:
            break
        points += 1
        died.add(stage.reaper.deaths[0].split(":")[0])
        assert stage.signals().count("TERM") <= 1, stage.reaper.deaths
        assert stage.signals().count(None) >= 1, stage.reaper.deaths
        assert len(stage.cluster.submitted) == 1, stage.reaper.deaths
        first = stage.store.attempts("a")[0]
        assert first.verdict is not None
        assert (first.verdict.cause, first.verdict.culprit_nodes) == (Cause.HANG, ("n2",)), stage.reaper.deaths
        assert len([i for i in stage.ends() if i.status is IntentStatus.DONE]) == 1
        early = NOW + (6 + TIMES_ALERT * ALERT) * PASS
        assert all(at >= early for at, _ in stage.cluster.cancelled)
        stage.store.close()
    assert {"cancel", "commit", "audit"} <= died
    assert points > 8
