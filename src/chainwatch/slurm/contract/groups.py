"""Arrays, het jobs, and jobs that wait for others."""

from __future__ import annotations

from chainwatch.model.job import Job, JobState
from chainwatch.slurm.backend import Refused
from chainwatch.slurm.contract.case import case
from chainwatch.slurm.contract.look import ended, in_queue, recorded, running, under_way
from chainwatch.slurm.contract.stage import Can, Program, Stage, expect, submission


@case(Can.SUBMIT, Can.ARRAYS)
def array_of_one_at_a_time(stage: Stage) -> None:
    """Of an array with %1 one task runs, with a raw id and its task number; the rest is one pending job."""
    array = stage.backend.submit(submission(stage, Program(seconds=60), "--array=1-3%1"))
    task = stage.wait_until(lambda: _running_task(stage, array), 60, "a task runs")
    expect(task.array_task == "1" and task.shown_id == f"{array}_1", f"the task is {task.shown_id}")
    rest = [job for job in _tasks(stage, array) if job.state is JobState.PENDING]
    expect(len(rest) == 1 and rest[0].array_task == "[2-3]", f"the rest is {[job.shown_id for job in rest]}")
    expect(rest[0].job_id != task.job_id, "the task and the rest share a raw id")
    shown = stage.backend.job(rest[0].job_id)
    expect(shown is not None and shown.array_limit == 1, f"the limit is {shown.array_limit if shown else 'unknown'}")
    stage.backend.cancel(task.job_id)
    stage.wait_until(lambda: ended(stage, task.job_id), 60, "the task ended")
    following = stage.wait_until(lambda: _running_task(stage, array), 60, "the next task runs")
    expect(following.array_task == "2", f"the next task is {following.shown_id}")
    if Can.ACCOUNTING in stage.can:
        row = stage.wait_until(lambda: _recorded_task(stage, task.job_id), 30, "accounting has the task's end")
        expect(row.array_job_id == array and row.array_task == "1", f"accounting has {row.shown_id}")
    for job in _tasks(stage, array):
        stage.backend.cancel(job.job_id)


@case(Can.SUBMIT, Can.ARRAYS)
def last_task_of_an_array_is_ended_alone(stage: Stage) -> None:
    """Cancelling by the raw id that the whole array shares ends one task, not the array."""
    array = stage.backend.submit(submission(stage, Program(seconds=60), "--array=1-2"))
    both = stage.wait_until(lambda: _all_run(stage, array, 2), 60, "both tasks run")
    last = next((job for job in both if job.job_id == array), None)
    expect(last is not None, f"no task has the array's own id: {[job.job_id for job in both]}")
    stage.backend.cancel(array)
    stage.wait_until(lambda: ended(stage, array), 60, "the last task ended")
    other = next(job for job in both if job.job_id != array)
    job = in_queue(stage, other.job_id)
    expect(job is not None and job.state is JobState.RUNNING, f"the other task is {job.state if job else 'gone'}")
    stage.backend.cancel(other.job_id)


@case(Can.SUBMIT, Can.HET_JOBS)
def het_job_has_components(stage: Stage) -> None:
    """The components of a het job have raw ids of their own and name their leader; cancelling one ends all."""
    leader = stage.backend.submit(submission(stage, Program(seconds=60), "--ntasks=1", ":", "--ntasks=1"))
    parts = stage.wait_until(lambda: _components(stage, leader), 90, "both components run")
    expect({part.shown_id for part in parts} == {f"{leader}+0", f"{leader}+1"}, f"shown as {parts}")
    stage.backend.cancel(parts[1].job_id)
    for part in parts:
        stage.wait_until(lambda part=part: ended(stage, part.job_id), 60, "every component ended")  # type: ignore[misc]


@case(Can.SUBMIT)
def singleton_waits_for_its_namesake(stage: Stage) -> None:
    """Of two jobs of one name, the one with --dependency=singleton waits until the other has ended."""
    name = "--job-name=cw-contract-singleton"
    first = stage.backend.submit(submission(stage, Program(seconds=60), name))
    second = stage.backend.submit(submission(stage, Program(seconds=60), name, "--dependency=singleton"))
    stage.wait_until(lambda: running(stage, first), 60, "the first job runs")
    waiting = in_queue(stage, second)
    expect(waiting is not None and waiting.state is JobState.PENDING, f"the second is {waiting}")
    expect(waiting is not None and waiting.reason == "Dependency", f"it waits for {waiting}")
    stage.backend.cancel(first)
    stage.wait_until(lambda: running(stage, second), 90, "the second job runs")
    gone = in_queue(stage, first)
    expect(gone is None or gone.state.terminal, f"the first is still {gone.state if gone else ''}")
    stage.backend.cancel(second)


@case(Can.SUBMIT)
def afterany_waits_for_the_end(stage: Stage) -> None:
    """A job with --dependency=afterany:ID starts when that job has ended, however it ended."""
    first = stage.backend.submit(submission(stage, Program(seconds=60)))
    second = stage.backend.submit(submission(stage, Program(seconds=60), f"--dependency=afterany:{first}"))
    stage.wait_until(lambda: running(stage, first), 60, "the first job runs")
    waiting = in_queue(stage, second)
    expect(waiting is not None and f"afterany:{first}" in waiting.dependency, f"the second is {waiting}")
    expect(waiting is not None and waiting.state is JobState.PENDING, f"the second is {waiting}")
    stage.backend.cancel(first)
    stage.wait_until(lambda: running(stage, second), 90, "the second job runs")
    stage.backend.cancel(second)


@case(Can.SUBMIT)
def afterany_waits_until_the_nodes_are_free(stage: Stage) -> None:
    """A job with --dependency=afterany:ID does not start while that job is still COMPLETING (a singleton may)."""
    first = stage.backend.submit(submission(stage, Program(seconds=60, deaf=True)))
    under_way(stage, first)
    second = stage.backend.submit(submission(stage, Program(seconds=60), f"--dependency=afterany:{first}"))
    stage.backend.cancel(first)
    stage.wait_until(lambda: _completing(stage, first), 10, "the first job is completing")

    def successor() -> Job | None:
        jobs = {job.job_id: job for job in stage.backend.queue(stage.user)}
        both = first in jobs and jobs[first].state.on_nodes and jobs[second].state is not JobState.PENDING
        expect(not both, f"the second is {jobs[second].state} while the first is {jobs.get(first)}")
        return jobs[second] if jobs[second].state is JobState.RUNNING else None

    stage.wait_until(successor, 90, "the second job runs")
    stage.backend.cancel(second)


@case(Can.SUBMIT, slow=True)
def dependants_wait_for_a_requeued_job(stage: Stage) -> None:
    """afterany and singleton wait for the next attempt of a job that is requeued, not only for the first."""
    name = "--job-name=cw-contract-requeued"
    first = stage.backend.submit(submission(stage, Program(seconds=120), "--requeue", name))
    attempt = under_way(stage, first).attempt
    after = stage.backend.submit(submission(stage, Program(), f"--dependency=afterany:{first}"))
    single = stage.backend.submit(submission(stage, Program(), name, "--dependency=singleton"))
    stage.backend.requeue(first)

    def again() -> Job | None:
        jobs = {job.job_id: job for job in stage.backend.queue(stage.user)}
        for dependant in (after, single):
            expect(jobs[dependant].state is JobState.PENDING, f"a dependant is {jobs[dependant].state}")
        back = jobs.get(first)
        return back if back and back.attempt != attempt and back.state is JobState.RUNNING else None

    stage.wait_until(again, 240, "the first job runs again")
    stage.backend.cancel(first)
    stage.wait_until(lambda: ended(stage, after), 90, "the job that waited for its end ran")
    stage.wait_until(lambda: ended(stage, single), 90, "the singleton ran")


@case(Can.SUBMIT, slow=True)
def dependency_on_a_forgotten_job_holds_nothing(stage: Stage) -> None:
    """A dependency on a job that the controller has forgotten holds nothing.

    `afterany` is satisfied at once in every release; `afterok` and `afternotok` are too (22.05), or sbatch refuses them
    (from 23.02).
    """
    forgotten = stage.backend.submit(submission(stage, Program()))
    stage.wait_until(lambda: ended(stage, forgotten), 60, "the first job ended")
    age = stage.backend.info().min_job_age
    stage.wait_until(lambda: in_queue(stage, forgotten) is None or None, age + 90, "the controller forgets the job")
    for kind in ("afterany", "afterok", "afternotok"):
        try:
            waiting = stage.backend.submit(submission(stage, Program(), f"--dependency={kind}:{forgotten}"))
        except Refused:
            expect(kind != "afterany", "afterany of a forgotten job was refused")
            continue
        stage.wait_until(lambda waiting=waiting: ended(stage, waiting), 60, f"the job of {kind} ran")  # type: ignore[misc]


@case(Can.SUBMIT)
def dependency_that_is_never_satisfied(stage: Stage) -> None:
    """A job that waits for the success of a failed job stays pending, and its reason says so."""
    first = stage.backend.submit(submission(stage, Program(code=1), "--hold"))
    second = stage.backend.submit(submission(stage, Program(), f"--dependency=afterok:{first}"))
    stage.backend.release(first)
    stage.wait_until(lambda: ended(stage, first), 60, "the first job failed")
    job = stage.wait_until(lambda: _hopeless(stage, second), 60, "the second job is known to be hopeless")
    expect(job.state is JobState.PENDING, f"it is {job.state}")
    stage.backend.cancel(second)


def _tasks(stage: Stage, array: int) -> list[Job]:
    return [job for job in stage.backend.queue(stage.user) if job.array_job_id == array and not job.state.terminal]


def _recorded_task(stage: Stage, job_id: int) -> Job | None:
    """The task's end in accounting, once its beginning has arrived there too (for a moment it may not have)."""
    row = recorded(stage, job_id)
    return row if row is not None and row.array_job_id is not None else None


def _running_task(stage: Stage, array: int) -> Job | None:
    return next((job for job in _tasks(stage, array) if job.state is JobState.RUNNING), None)


def _all_run(stage: Stage, array: int, number: int) -> list[Job] | None:
    tasks = [job for job in _tasks(stage, array) if job.state is JobState.RUNNING]
    return tasks if len(tasks) == number else None


def _components(stage: Stage, leader: int) -> list[Job] | None:
    parts = [job for job in stage.backend.queue(stage.user) if job.het_job_id == leader]
    whole = len(parts) == 2 and all(part.state is JobState.RUNNING for part in parts)
    return sorted(parts, key=lambda part: part.job_id) if whole else None


def _completing(stage: Stage, job_id: int) -> Job | None:
    job = in_queue(stage, job_id)
    return job if job is not None and job.state is JobState.COMPLETING else None


def _hopeless(stage: Stage, job_id: int) -> Job | None:
    job = in_queue(stage, job_id)
    return job if job is not None and job.reason == "DependencyNeverSatisfied" else None
