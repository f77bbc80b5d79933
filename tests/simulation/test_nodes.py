"""Nodes that die: first nothing is seen of it, then the job ends, and its processes may write on."""

from __future__ import annotations

from chainwatch.model.checkpoint import Status
from chainwatch.model.job import JobState
from chainwatch.simulation import Recipe
from chainwatch.simulation.truth import outlived_node, running_together, writing_together
from tests.simulation.lab import TRAIN, Lab, batch


def test_a_dead_node_is_noticed_after_25_to_45_seconds() -> None:
    lab = Lab()
    job = lab.run(batch(None), "--no-requeue")
    lab.clock.sleep(5)
    lab.cluster.kill_node("n1")
    lab.clock.sleep(15)
    (node,) = lab.backend.nodes(["n1"])
    assert (node.state, "not_responding" in node.flags, lab.state(job)) == ("mixed", True, "RUNNING")
    lab.clock.sleep(40)
    (node,) = lab.backend.nodes(["n1"])
    assert (node.state, node.reason, node.usable) == ("down", "Not responding", False)
    row = lab.row(job)
    assert (row.state, lab.backend.job(job).failed_node) == (JobState.NODE_FAIL, "n1")  # type: ignore[union-attr]
    assert row.step("batch").exit is None  # type: ignore[union-attr]


def test_a_job_that_may_be_requeued_comes_back_under_its_id_on_other_nodes() -> None:
    lab = Lab()
    job = lab.run(batch(None))
    lab.clock.sleep(5)
    lab.cluster.kill_node("n1")
    lab.clock.sleep(300)
    live = lab.queued(job)
    assert live is not None
    assert (live.state, live.nodes, live.restarts) == (JobState.RUNNING, ("n2",), 1)
    assert [r.state for r in lab.backend.accounting([job])] == [JobState.NODE_FAIL, JobState.RUNNING]


def test_the_processes_of_a_dead_node_train_and_save_until_slurmd_is_back() -> None:
    lab = Lab()
    training = lab.training(Recipe(final_step=100_000), "--exclusive", "--no-requeue")
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(200)
    lab.cluster.kill_node("n1")
    lab.clock.sleep(60)
    assert lab.row(job).state is JobState.NODE_FAIL
    second = lab.submit(script=TRAIN)
    lab.clock.sleep(2000)
    assert lab.state(second) == "RUNNING"
    (a, b) = lab.cluster.runs
    assert outlived_node(a)
    assert running_together([a, b]) == []
    assert len(writing_together([a, b])) == 1
    assert any(state.torn or state.status is not Status.INTACT for state in training.disk.states.values()) or (
        training.trainers[0].step > training.trainers[1].step
    )
    lab.cluster.restore("n1")
    assert a.silent == lab.clock.time
    lab.clock.sleep(100)
    assert lab.state(second) == "RUNNING"


def test_a_node_without_power_ends_its_processes_at_once() -> None:
    lab = Lab()
    training = lab.training(Recipe(), "--exclusive", "--no-requeue")
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(200)
    lab.cluster.kill_node("n1", power=True)
    lab.clock.sleep(10)
    assert lab.state(job) == "RUNNING", "being listed is not being alive"
    assert not training.trainers[0].process.alive
    lab.clock.sleep(60)
    assert lab.state(job) == "NODE_FAIL"


def test_slurmd_back_in_time_changes_nothing_for_a_running_job() -> None:
    lab = Lab()
    job = lab.run(batch(100))
    lab.clock.sleep(5)
    lab.cluster.kill_node("n1")
    lab.clock.sleep(20)
    lab.cluster.restore("n1")
    lab.clock.sleep(60)
    assert lab.state(job) == "RUNNING"
    lab.clock.sleep(60)
    assert lab.state(job) == "COMPLETED"


def test_what_ended_while_slurmd_was_away_is_noticed_on_its_return() -> None:
    lab = Lab()
    job = lab.run(batch(10))
    lab.clock.sleep(5)
    lab.cluster.kill_node("n1")
    lab.clock.sleep(20)
    assert lab.state(job) == "RUNNING"
    lab.cluster.restore("n1")
    lab.clock.sleep(10)
    assert lab.state(job) == "COMPLETED"


def test_scancel_does_not_reach_a_dead_node_until_it_is_given_up() -> None:
    lab = Lab()
    job = lab.run(batch(None))
    lab.clock.sleep(5)
    lab.cluster.kill_node("n1")
    lab.backend.cancel(job)
    lab.clock.sleep(15)
    assert lab.state(job) == "COMPLETING"
    lab.clock.sleep(60)
    assert lab.state(job) == "CANCELLED"


def test_an_administrators_down_ends_the_job_and_its_processes() -> None:
    lab = Lab()
    job = lab.run(batch(None), "--no-requeue")
    lab.clock.sleep(5)
    lab.cluster.set_down("n1", "bad memory")
    lab.clock.sleep(10)
    assert lab.state(job) == "NODE_FAIL"
    assert lab.cluster.runs[0].silent is not None
    (node,) = lab.backend.nodes(["n1"])
    assert (node.state, node.reason, node.reason_by) == ("down", "bad memory", "root")


def test_draining_lets_the_job_finish_and_takes_no_other() -> None:
    lab = Lab()
    job = lab.run(batch(30), "--nodelist=n1")
    lab.clock.sleep(5)
    lab.cluster.drain("n1", "maintenance")
    other = lab.submit("--nodelist=n1")
    lab.clock.sleep(60)
    assert (lab.state(job), lab.state(other)) == ("COMPLETED", "PENDING")
    lab.cluster.restore("n1")
    lab.clock.sleep(5)
    assert lab.state(other) == "RUNNING"
