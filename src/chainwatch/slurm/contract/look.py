"""Looking at one job, for `Stage.wait_until`: the job where it is as asked for, else None."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from chainwatch.model.job import Job, JobState
from chainwatch.slurm.backend import NoInformation, Refusal, Refused
from chainwatch.slurm.contract.stage import Broken, Stage


def in_queue(stage: Stage, job_id: int) -> Job | None:
    """The job as the queue has it now."""
    return next((job for job in stage.backend.queue(stage.user) if job.job_id == job_id), None)


def running(stage: Stage, job_id: int) -> Job | None:
    """The job, if it runs. Raises `Broken` where it ended instead."""
    job = in_queue(stage, job_id)
    if job is not None and job.state.terminal:
        raise Broken(f"job {job_id} ended as {job.state} where it should run")
    return job if job is not None and job.state is JobState.RUNNING else None


def under_way(stage: Stage, job_id: int, seconds: float = 3.0) -> Job:
    """The job, once it has run for a while: its script has set its traps and started its step."""
    job = stage.wait_until(lambda: running(stage, job_id), 90, f"job {job_id} runs")
    since = job.start or stage.now()
    stage.wait_until(lambda: stage.now() - since >= timedelta(seconds=seconds) or None, seconds + 30, "time passes")
    return running(stage, job_id) or job


def ended(stage: Stage, job_id: int) -> Job | None:
    """The job, if the queue says that it ended."""
    job = in_queue(stage, job_id)
    return job if job is not None and job.state.terminal else None


def recorded(stage: Stage, job_id: int, *, steps: bool = False) -> Job | None:
    """The job's newest attempt in accounting, if it is over there (with `steps`: and has steps that are over)."""
    rows = [row for row in stage.backend.accounting([job_id]) if row.state.terminal]
    if not rows or rows[-1].end is None:
        return None
    if steps and not (rows[-1].steps and all(step.state.terminal for step in rows[-1].steps)):
        return None
    return rows[-1]


def refused(request: Callable[[], object]) -> Refused:
    """The refusal that `request` meets. Raises `Broken` where it is granted or nothing is answered."""
    try:
        granted = request()
    except Refused as refusal:
        return refusal
    except NoInformation as silence:
        raise Broken(f"no refusal, but silence: {silence}") from silence
    raise Broken(f"granted where it must be refused: {granted}")


def refused_for(request: Callable[[], object], calls_for: Refusal) -> None:
    """The request is refused and calls for this."""
    refusal = refused(request)
    if refusal.calls_for is not calls_for:
        raise Broken(f"{refusal} calls for {refusal.calls_for}, not {calls_for}")


def silent(request: Callable[[], object]) -> NoInformation:
    """The request gets no answer, and says so. Raises `Broken` where something was made up."""
    try:
        answer = request()
    except NoInformation as silence:
        return silence
    except Refused as refusal:
        raise Broken(f"taken for a refusal: {refusal}") from refusal
    raise Broken(f"an answer where there can be none: {answer}")
