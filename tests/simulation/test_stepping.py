"""`chainwatch step` against the simulated cluster: no daemon, each job looks after the next at its head."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.config.models import HandOver
from chainwatch.model.chain import ChainState, Desired, ExcludedNode
from chainwatch.simulation import Fault, FaultKind
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.truth import bad_starts, holding_together
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.stepping import LEASE_TTL, Next, NotOurs, Stepping, Told, beside_a_daemon
from tests.simulation.test_never import template
from tests.simulation.world.plan import ChainPlan, Plan
from tests.simulation.world.world import World

__all__ = ["template"]
CHAIN = ChainPlan(hand_over=HandOver.COMMAND, no_requeue=True, final_step=6000, time_limit=60)


class Daemonless(World):
    """A world whose daemon only submits the first job; then every job steps when it starts, and ends where it must."""

    told: list[Told]

    def go(self, hours: float = 24.0) -> None:
        self.told = []
        self._begin()
        assert self.supervisor is not None
        self.supervisor.tick()
        end = self.clock.time + hours * 3600
        stepped: set[tuple[int, float]] = set()
        while self.clock.time < end and any(self.live(name) for name in self.tales):
            for job in self.live("run0"):
                key = (job.job_id, job.start or 0.0)
                if job.state == "RUNNING" and key not in stepped:
                    stepped.add(key)
                    self.step(job)
            self.clock.sleep(5.0)

    def step(self, job: SimJob, patience: timedelta = timedelta(minutes=5)) -> Told:
        told = self.stepping().take("run0", job.job_id, patience)
        self.told.append(told)
        if told.next is not Next.GO_ON:
            self.cluster.cancel(job.job_id)  # its script ends here
        return told

    def stepping(self) -> Stepping:
        assert self.supervisor is not None
        house = self.supervisor.house
        house.lease = self.store.acquire_lease("n1:7", LEASE_TTL, self.clock.now(), force_dead_check=lambda _: True)
        return Stepping(house, Poller(self.backend, self.clock, "ada", timedelta(seconds=60), random.Random(1)))

    def first(self) -> SimJob:
        """The first job, just started."""
        self.told = []
        self._begin()
        assert self.supervisor is not None
        self.supervisor.tick()
        self.clock.sleep(30.0)
        (job,) = self.live("run0")
        return job


@pytest.fixture
def world(template: Path) -> Iterator[Daemonless]:
    made = Daemonless(Plan(chains=(CHAIN,)), template)
    made.reaper.enabled = False
    yield made
    made.close()


def test_a_chain_reaches_its_end_job_by_job_without_a_daemon(world: Daemonless) -> None:
    world.go()
    record = world.store.chain("run0")
    assert record is not None
    assert record.state is ChainState.DONE, record.sentence
    assert [t.next for t in world.told[:-1]] == [Next.GO_ON] * (len(world.told) - 1)
    assert world.told[-1].next is Next.DONE
    assert len(world.told) >= 5
    assert bad_starts(world.tales["run0"].training) == []
    assert holding_together(world.runs("run0")) == []
    assert world.live("run0") == [], "nothing is queued behind the last one"


def test_silence_lets_the_job_train_and_somebody_is_told_that_nothing_follows(world: Daemonless) -> None:
    job = world.first()
    world.cluster.stop_controller()
    told = world.step(job)
    assert told.next is Next.GO_ON
    assert "nothing was judged" in told.why
    assert [n.key for n in world.store.active_notices("run0") if n.key.startswith("run0:last:")]


def test_a_submission_without_an_answer_is_looked_up_before_the_job_trains(world: Daemonless) -> None:
    job = world.first()
    world.backend.faults.add([Fault("submit", 1, FaultKind.AFTER)])
    told = world.step(job)
    assert told.next is Next.GO_ON
    assert "stands by" in told.why
    assert len(world.live("run0")) == 2


def test_a_second_step_of_the_same_job_queues_no_second_standby(world: Daemonless) -> None:
    job = world.first()
    assert "stands by" in world.step(job).why
    assert "stands by" in world.step(job).why
    assert len(world.live("run0")) == 2


def test_a_job_on_a_node_that_the_chain_keeps_away_from_makes_way_for_the_next(world: Daemonless) -> None:
    job = world.first()
    (node,) = job.nodes
    now = world.clock.now()
    world.store.exclude(ExcludedNode(node, "Xid 79", now, now + timedelta(days=1), "run0"))
    told = world.step(job)
    assert told.next is Next.STOP
    assert f"keeps away from {node}" in told.why
    (following,) = [j for j in world.live("run0") if j.job_id != job.job_id]
    assert node in following.request.exclude


@pytest.mark.parametrize(
    ("desired", "answer"),
    [(Desired.PAUSE, Next.STOP), (Desired.STOP, Next.STOP), (Desired.DONE, Next.DONE)],
)
def test_what_a_person_said_is_heeded_and_nothing_is_queued(world: Daemonless, desired: Desired, answer: Next) -> None:
    job = world.first()
    world.store.update_chain("run0", desired=desired, desired_why="new data")
    told = world.step(job)
    assert told.next is answer
    assert "new data" in told.why
    assert [j for j in world.live("run0") if j.job_id != job.job_id] == []


def test_a_job_of_nobody_and_a_fixed_hand_over_are_refused_with_a_sentence(world: Daemonless) -> None:
    world.first()
    with pytest.raises(NotOurs, match="job 4711 is none of the chain run0"):
        world.stepping().take("run0", 4711, timedelta(0))
    with pytest.raises(NotOurs, match="no chain is named run9"):
        world.stepping().take("run9", 1)
    fixed = world.tales["run0"].settings.model_dump(mode="json")
    fixed["checkpoints"]["hand_over"] = "variable"
    world.store.update_chain("run0", settings=fixed)
    with pytest.raises(NotOurs, match="fixed at submission"):
        world.stepping().take("run0", 1)


def test_beside_a_daemon_a_step_waits_for_its_verdict_and_writes_nothing(world: Daemonless) -> None:
    job = world.first()
    assert world.supervisor is not None
    world.supervisor.tick()
    commits = world.store.commits
    told = beside_a_daemon(world.supervisor.house, "run0", job.job_id, world.clock.sleep)
    assert (told.next, world.store.commits) == (Next.GO_ON, commits)
    before = world.clock.time
    told = beside_a_daemon(world.supervisor.house, "run0", 4711, world.clock.sleep)
    assert told.next is Next.GO_ON
    assert world.clock.time - before >= 300, "it was waited for"
