"""A running attempt that falls silent: told once, taken back when life returns, and never told of many at once."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chainwatch.actions.audit import Audit
from chainwatch.config.models import Chain, Config
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job, JobState
from chainwatch.model.verdict import Progress
from chainwatch.slurm.backend import NoInformation
from chainwatch.store import Store, open_store
from chainwatch.store.records import ChainRecord, Notice, Origin
from chainwatch.supervisor.house import House
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.readers import AtOnce, LeftBehind, Place, Silent
from tests.alerts.conftest import FakeClock
from tests.supervisor.jobs import NOW, queued


class Cluster:
    """A queue that is set by hand."""

    name = "alpha"

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.down = False

    def queue(self, user: str | None) -> Sequence[Job]:
        if self.down:
            raise NoInformation("squeue", "timed out")
        return self.jobs

    def accounting(self, *words: Any, **more: Any) -> Sequence[Job]:
        return []

    def nodes(self, names: Any = ()) -> Sequence[Any]:
        return []

    def info(self) -> Any:
        return SimpleNamespace(accounting=True)


@dataclass
class Runs(AtOnce):
    """`Readers` of runs whose life is set by hand."""

    life: dict[str, Progress | Silent] = field(default_factory=dict)

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        return self.life[place.chain]

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        return None

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        return LeftBehind()

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class Stage:
    """A supervisor over chains that run."""

    def __init__(self, store: Store, root: Path, names: Sequence[str]) -> None:
        self.store, self.clock, self.cluster, self.runs = store, FakeClock(NOW), Cluster(), Runs()
        self.step = 10
        script = root / "job.sh"
        script.touch()
        for number, name in enumerate(names):
            settings = Chain(batch=script).model_dump(mode="json")
            record = ChainRecord(name, "alpha", Origin.SBATCH, Mode.ACT, settings, NOW, state=ChainState.PENDING)
            store.add_chain(replace(record, facts={"expected": {"job_id": 7 + number, "since": NOW.isoformat()}}))
            self.cluster.jobs.append(queued(job_id=7 + number, start=NOW))
        config = Config(state=root, poll=timedelta(minutes=5))
        house = House(
            store=store, lease=store.acquire_lease("here:1", LEASE_TTL, NOW), state=root, config=config,
            backends={"alpha": self.cluster},  # type: ignore[dict-item]
            readers=self.runs, clock=self.clock, audit=Audit(root), user="ada",
        )  # fmt: skip
        poller = Poller(self.cluster, self.clock, "ada", timedelta(minutes=1), random.Random(1))  # type: ignore[arg-type]
        self.supervisor = Supervisor(house, {"alpha": poller})
        self.names = names

    def minutes(self, count: int, *alive: str) -> None:
        """So many minutes, with a poll every five, in which these chains step."""
        for _ in range(count // 5):
            self.clock.sleep(300)
            self.step += 1
            for name in self.names:
                if name in alive or name not in self.runs.life:
                    self.runs.life[name] = Progress(step=self.step, life=str(self.step), rate=0.02)
            self.supervisor.tick()

    def told(self, key: str) -> list[Notice]:
        return [n for n in self.store.undelivered() if key in n.key and n.recovered is None]

    def record(self, name: str = "a") -> ChainRecord:
        record = self.store.chain(name)
        assert record is not None
        return record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "state")
    yield store
    store.close()


@pytest.fixture
def one(store: Store, tmp_path: Path) -> Stage:
    stage = Stage(store, tmp_path, ["a", "b"])
    stage.minutes(75, "a", "b")
    return stage


def test_a_run_that_falls_silent_is_told_once_and_the_job_left_alone(one: Stage) -> None:
    one.minutes(20, "b")
    assert one.told("hang") == []
    one.minutes(40, "b")
    (notice,) = one.told("hang")
    assert notice.key.startswith("a:hang:")
    assert "grew for" in str(notice.body)
    assert "seems to hang" in one.record().sentence
    assert one.record().state is ChainState.RUNNING
    assert not one.store.intents("a")


def test_life_that_returns_takes_it_back_and_teaches(one: Stage) -> None:
    one.minutes(30, "b")
    assert one.told("hang")
    one.minutes(10, "a", "b")
    assert one.told("hang") == []
    assert "hang" not in one.record().sentence
    one.minutes(50, "b")
    assert one.told("hang") == [], "it came back by itself after half an hour once"
    one.minutes(40, "b")
    assert one.told("hang")


def test_a_suspended_job_and_silent_storage_are_no_hangs(one: Stage) -> None:
    one.cluster.jobs[0] = replace(one.cluster.jobs[0], state=JobState.SUSPENDED)
    one.runs.life["b"] = Silent("storage does not answer yet")
    one.minutes(90)
    assert one.told("hang") == []


def test_a_queue_that_does_not_answer_changes_nothing_of_what_is_known(one: Stage) -> None:
    one.cluster.down = True
    one.minutes(90)
    assert one.record().facts["watch"]["silent"] == 0
    assert one.told("hang") == []


def test_chains_that_fall_silent_together_are_one_incident_that_ends(store: Store, tmp_path: Path) -> None:
    stage = Stage(store, tmp_path, ["a", "b", "c", "d"])
    stage.minutes(75, "a", "b", "c", "d")
    stage.minutes(40, "d")
    assert stage.told("hang") == []
    (notice,) = stage.told("incident")
    assert "3 chains fell silent" in notice.title
    stage.minutes(10, "a", "b", "c", "d")
    assert stage.told("incident") == []


def test_an_attempt_that_ends_leaves_its_pace_and_nothing_else(one: Stage) -> None:
    one.minutes(30, "b")
    assert one.record().facts["rate"] == 0.02
    one.cluster.jobs = one.cluster.jobs[1:]
    one.minutes(5, "b")
    assert one.told("hang") == []
    assert not {"watch", "rate", "hang"} & set(one.record().facts)
    assert one.record().facts["pace"]["counts"]


def test_workers_that_a_launcher_restarts_inside_the_job_are_an_event_and_steps_going_back_no_alarm(one: Stage) -> None:
    for step, restarts in ((900, 0), (905, 0), (860, 1), (866, 1), (700, 2)):
        one.runs.life["a"] = Progress(step=step, life=f"{step}/{restarts}", restarts=restarts)
        one.minutes(5, "b")
    said = [sentence for _, number, _, sentence in one.store.decisions("a") if number == 1]
    assert [s for s in said if "restarted the workers" in s] == [
        "the launcher restarted the workers inside job 7 at step 905, for the 1st time",
        "the launcher restarted the workers inside job 7 at step 866, for the 2nd time",
    ]
    assert one.record().step == 700
    assert len(one.store.attempts("a")) == 1
    assert {n.key.split(":")[1] for n in one.store.undelivered()} <= {"first-recovery"}


def test_a_chain_whose_steps_only_its_checkpoints_tell_is_not_stuck_in_start_up_while_its_log_grows(one: Stage) -> None:
    one.cluster.jobs[0] = queued(job_id=70, submitted=one.clock.at, start=one.clock.at)
    facts = {k: v for k, v in one.record().facts.items() if k not in {"watch", "tells_steps"}}
    one.store.update_chain("a", step=500, facts=facts | {"expected": {"job_id": 70, "since": one.clock.at.isoformat()}})
    for number in range(30):
        one.runs.life["a"] = Progress(life=f"grows {number}")
        one.minutes(5, "b")
    assert one.told("hang") == []


def test_a_restart_without_a_step_is_stuck_where_steps_could_be_read_before(one: Stage) -> None:
    one.cluster.jobs[0] = queued(job_id=70, submitted=one.clock.at, start=one.clock.at)
    expected = {"expected": {"job_id": 70, "since": one.clock.at.isoformat()}}
    one.store.update_chain("a", facts={**one.record().facts, **expected})
    for number in range(16):
        one.runs.life["a"] = Progress(life=f"a bar that grows {number}")
        one.minutes(5, "b")
    assert "no training step" in str(one.told("hang")[0].body)


def test_a_loss_that_stays_nan_is_told_and_one_lost_step_is_not(one: Stage) -> None:
    lost = Progress(step=99, life="x", loss=float("nan"))
    one.runs.life["a"] = lost
    one.minutes(5, "b")
    assert one.told("nan") == []
    one.minutes(5, "b")
    assert len(one.told("nan")) == 1
