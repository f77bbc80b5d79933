"""Arrays of one lane and arrays of many, whose tasks come and go while nobody looks."""

from __future__ import annotations

from collections.abc import Callable

from chainwatch.simulation.process import Process, Program
from chainwatch.slurm.backend import Submission
from tests.bugs.play import DAY, LONG, ChainPlan, ChainState, Play

Stage = Callable[..., Play]
QUICK = ChainPlan(final_step=600)


def submitted_as_array(on: Play, option: str, tasks: dict[str, str | None]) -> int:
    """One array whose tasks train for the chains: `tasks` says which task each chain is (None: all of them)."""
    by_task = {task: on.tales[name] for name, task in tasks.items()}

    def script(process: Process) -> Program:
        tale = by_task.get(str(process.launch.array_task)) or by_task[None]
        return tale.training(process)

    on.cluster.add_script("/home/ada/array.sh", script)
    array = on.cluster.submit(
        Submission("/home/ada/array.sh", options=(option, "--exclusive"), directory=on.tale().directory)
    )
    for name, task in tasks.items():
        on.store.update_chain(name, facts={"array": {"id": array, "task": task}})
    return array


def test_a_lane_that_ended_while_the_daemon_was_away_is_done_and_not_begun_anew(play: Stage) -> None:
    on = play(QUICK, first=False, min_job_age=60.0)
    submitted_as_array(on, "--array=0-2%1", {"run0": None})
    on.until(lambda: on.is_(ChainState.RUNNING), "its first task runs")
    on.supervisor = None
    on.clock.advance(DAY)
    on.until(lambda: on.is_(ChainState.DONE), "it is known to be done", LONG)
    on.go(LONG)
    assert not on.clients.lines("sbatch")
    assert [a.job.array_task for a in on.attempts()] == ["0", "1", "2"]


def test_tasks_that_ended_before_any_daemon_looked_are_found(play: Stage) -> None:
    on = play(QUICK, QUICK, first=False, min_job_age=60.0)
    on.supervisor = None
    submitted_as_array(on, "--array=0-1", {"run0": "0", "run1": "1"})
    on.clock.advance(DAY)
    on.until(lambda: all(on.is_(ChainState.DONE, name) for name in on.tales), "both are known to be done", LONG)
    on.go(LONG)
    assert not on.clients.lines("sbatch")
    assert [len(on.attempts(name)) for name in on.tales] == [1, 1]
