"""Who brings a job back, what holds nodes for nothing, and which nodes are kept away from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chainwatch.simulation import OnTerm, TrainingFault, Trouble
from chainwatch.simulation.process import Process, Program
from chainwatch.slurm.backend import Submission
from tests.bugs.catalogue import plays
from tests.bugs.play import DAY, LONG, Cause, ChainPlan, ChainState, Play
from tests.simulation.world.world import Tale

Stage = Callable[..., Play]


@plays(
    "facebookincubator/submitit#1708",
    "facebookincubator/submitit#1697",
    "facebookincubator/submitit#1701",
    "facebookincubator/submitit#1615",
)
@pytest.mark.parametrize(
    ("release", "word"), [("22.05.8", "REQUEUED"), ("22.05.8", "TIMEOUT"), ("24.11.5", "PREEMPTED")]
)
def test_a_job_that_requeued_itself_is_left_alone(play: Stage, release: str, word: str) -> None:
    on = play(release=release)
    job = on.running()
    stdout = job.process.launch.stdout if job.process else ""
    on.tale().disk.write(
        stdout, f"*** JOB {job.job_id} ON n1 CANCELLED AT 2026-03-02T07:00:00 DUE TO JOB REQUEUE ***", 1
    )
    on.clients.edits["sacct"] = lambda row: row | ({"State": word} if row["State"] == "REQUEUED" else {})
    on.cluster.controller.requeue(job.job_id)
    on.go(180)
    assert on.record().state in {ChainState.PENDING, ChainState.RUNNING}
    on.finishes()
    assert on.submitted() == [job.job_id]
    assert on.never_bad()


@plays("Lightning-AI/pytorch-lightning#15022", "Lightning-AI/pytorch-lightning#15040")
def test_one_task_of_an_array_comes_back_and_its_siblings_are_left_alone(play: Stage) -> None:
    """`--array=0-2`, one chain a task. Task 1 crashes; what is submitted for it is task 1 and nothing else."""
    lost = TrainingFault(Trouble.NETWORK, step=1500, times=1)
    on = play(ChainPlan(), ChainPlan(faults=(lost,)), ChainPlan(), first=False)
    on.cluster.occupy(3, 3600)  # first one task runs, and the others are the pending rest
    scripts = {str(number): on.tales[f"run{number}"] for number in range(3)}
    on.cluster.add_script("/home/ada/array.sh", lambda process: _trainer(scripts, process))
    directory = on.tale().directory
    array = on.cluster.submit(
        Submission("/home/ada/array.sh", options=("--array=0-2", "--exclusive"), directory=directory)
    )
    for number, name in enumerate(on.tales):
        on.store.update_chain(name, facts={"array": {"id": array, "task": str(number)}})
    on.until(lambda: all(on.is_(ChainState.DONE, name) for name in on.tales), "all are done", 2 * DAY)
    on.go(LONG)
    assert [len(on.attempts(name)) for name in on.tales] == [1, 2, 1]
    (again,) = on.clients.lines("sbatch")
    assert "--array=1" in again
    assert not on.cancelled()
    assert {a.job.shown_id for a in on.attempts("run1")} == {f"{array}_1", f"{on.submitted('run1')[0]}_1"}
    assert on.never_bad("run1")


@plays("ZettaAI/zetta_utils#671", "PrimeIntellect-ai/prime-rl#2574")
def test_a_job_that_runs_and_gets_nowhere_is_told_about_and_left_alone(play: Stage) -> None:
    on = play(ChainPlan(faults=(TrainingFault(Trouble.HANG, step=1000, times=1),)))
    on.until(lambda: on.alerts("hang"), "somebody is told", DAY)
    assert on.is_(ChainState.RUNNING)
    assert "hang" in on.record().sentence
    assert not on.cancelled()
    assert len(on.alerts("hang")) == 1
    on.go(LONG)
    assert len(on.alerts("hang")) == 1, "once"
    assert len(on.submitted()) == 1


@plays("snakemake-executor-plugin-slurm#240")
def test_the_next_job_keeps_away_from_the_node_that_was_lost_for_a_while(play: Stage) -> None:
    on = play(ChainPlan(no_requeue=True))
    job = on.running()
    (lost,) = job.nodes
    on.cluster.set_down(lost, "bad memory")
    on.until(lambda: len(on.submitted()) == 2, "the next job", 1800)
    assert f"--exclude={lost}" in on.clients.lines("sbatch")[-1]
    [kept] = on.store.excluded(on.clock.now(), "run0")
    assert kept.node == lost
    assert 0 < (kept.until - on.clock.now()).total_seconds() <= 2 * DAY
    on.finishes()


@plays("snakemake-executor-plugin-slurm#411")
@pytest.mark.parametrize("nodes", ["n1", "None assigned", "(null)", ""])
def test_nobody_keeps_away_from_a_node_for_what_was_not_its_fault(play: Stage, nodes: str) -> None:
    on = play(ChainPlan(faults=(TrainingFault(Trouble.CRASH, step=900, times=1),)))

    def edit(row: dict[str, str]) -> dict[str, str]:
        over = row["State"] == "FAILED"
        return row | ({"NodeList": nodes} if over else {})

    on.clients.edits = {"sacct": edit}
    on.until(lambda: on.causes(), "it is judged")
    on.go(LONG)
    assert not on.store.excluded(on.clock.now(), "run0")
    assert not any(word.startswith("--exclude") for call in on.clients.lines("sbatch") for word in call)
    assert on.causes()[0] is Cause.USER_CODE


@plays("Lightning-AI/pytorch-lightning#15008", "facebookincubator/submitit#1780")
def test_a_chain_that_drains_node_after_node_is_stopped(play: Stage) -> None:
    """Its ranks are deaf to SIGTERM, so each node that it leaves is drained; fresh nodes would be drained too."""
    on = play(ChainPlan(no_requeue=True, final_step=30_000, on_term=OnTerm.IGNORE))
    for number in (1, 2):
        job = on.running(number)
        on.go(3600)
        (node,) = job.nodes
        on.cluster.preempt(job.job_id)
        on.clock.after(100, lambda node=node: on.cluster.drain(node, "Kill task failed"))  # type: ignore[misc]
        on.until(lambda n=number: len(on.causes()) == n, "it is judged")  # type: ignore[misc]
    on.go(LONG)
    assert on.is_(ChainState.STOPPED)
    assert on.causes() == [Cause.PREEMPTION, Cause.PREEMPTION]
    assert "n1, n2: Kill task failed" in on.record().sentence
    assert len(on.submitted()) == 2
    assert not on.store.excluded(on.clock.now(), "run0"), "the nodes are not at fault"
    on.store.update_chain("run0", retried_at=on.clock.now())
    on.finishes()


def _trainer(tales: dict[str, Tale], process: Process) -> Program:
    return tales[str(process.launch.array_task)].training(process)
