"""A simulated job as squeue, scontrol and sacct would each tell of it: no source knows more here than the real one."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from chainwatch.model.clock import at_epoch
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source, Step
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.settings import Settings
from chainwatch.slurm.jobids import compress_tasks


def seen_in_queue(job: SimJob, settings: Settings, source: Source = Source.QUEUE) -> Job:
    """What squeue shows, or with `Source.CONTROLLER` what `scontrol show job` does."""
    request = job.request
    over = job.shown_state.terminal
    controller = source is Source.CONTROLLER
    qos = settings.find_qos(request.qos)
    return Job(
        attempt=attempt_of(job, settings),
        shown_id=shown_id(job),
        state=job.shown_state,
        source=source,
        raw_state=job.shown_state.value,
        reason="" if job.reason == "None" else job.reason,
        name=request.name,
        user=request.user,
        partition=request.partition,
        qos=request.qos,
        account=request.account,
        comment=request.comment,
        array_job_id=job.array_job_id,
        array_task=array_task(job),
        array_limit=request.task_limit if controller else None,
        het_job_id=job.het_job_id,
        start=_time(job.start),
        end=_time(job.end) if over else None,
        preempted_at=_time(job.preempted_at),
        time_limit=None if request.time_limit is None else timedelta(seconds=request.time_limit),
        nodes=job.nodes,
        exit=(job.exit or ExitCode(0)) if over else None,
        derived_exit=(job.derived_exit or ExitCode(0)) if over else None,
        restarts=job.restarts,
        requeue=request.requeue,
        priority=0 if job.held and job.pending else 1000 * (qos.priority if qos else 1),
        dependency=job.dependency,
        failed_node=job.failed_node if controller else None,
        directory=request.directory,
        command=" ".join([request.script, *request.args]),
        submit_line=request.submit_line if controller and settings.shows_submit_line else "",
        stdout=_shown_output(request.stdout, job, controller),
        stderr=_shown_output(request.stderr, job, controller),
        gpus=request.gpus,
        cpus=job.cpus,
    )


def seen_in_accounting(job: SimJob, settings: Settings, state: JobState | None = None) -> Job:
    """The row that the controller sends to slurmdbd; `state` where the row's word is not the job's own state."""
    request = job.request
    shown = state or job.state
    task = _bracketed(array_task(job), request.task_limit)
    over = job.end is not None
    raw = shown.value
    if shown is JobState.CANCELLED and job.cancelled_by is not None:
        raw = f"CANCELLED by {job.cancelled_by}"
    return Job(
        attempt=attempt_of(job, settings),
        shown_id=shown_id(job) if task is None else f"{job.array_job_id}_{task}",
        state=shown,
        source=Source.ACCOUNTING,
        raw_state=raw,
        reason="" if job.reason == "None" else job.reason,
        name=request.name,
        user=request.user,
        partition=request.partition,
        qos=request.qos,
        account=request.account,
        comment=request.comment if settings.comment_in_accounting else "",
        array_job_id=job.array_job_id,
        array_task=task,
        array_limit=request.task_limit if "--array" in request.submit_line else None,
        het_job_id=job.het_job_id,
        start=_time(job.start),
        end=_time(job.end),
        time_limit=None if request.time_limit is None else timedelta(seconds=request.time_limit),
        nodes=job.nodes,
        exit=_recorded_exit(shown, job, settings) if over else None,
        derived_exit=job.derived_exit if over else None,
        cancelled_by=job.cancelled_by,
        restarts=job.restarts if settings.shows_submit_line else None,
        failed_node=job.failed_node if settings.shows_submit_line else None,
        directory=request.directory,
        submit_line=request.submit_line,
        gpus=request.gpus,
        cpus=job.cpus if job.nodes else None,
        steps=_steps(job, settings) if over else _live_steps(job),
    )


def attempt_of(job: SimJob, settings: Settings) -> AttemptId:
    """Identity of the attempt that this record is now. Slurm counts whole seconds."""
    return AttemptId(settings.name, job.job_id, at_epoch(math.floor(job.submitted)))


def shown_id(job: SimJob) -> str:
    """`12`, `12_3`, `12_[4-9]` for the rest of an array, `12+1` for a component of a het job."""
    if job.het_job_id is not None:
        return f"{job.het_job_id}+{job.het_offset}"
    task = array_task(job)
    return str(job.job_id) if task is None else f"{job.array_job_id}_{task}"


def array_task(job: SimJob) -> str | None:
    """`3`, `[4-9]` for the pending rest, or None for a job that is no array."""
    if job.task is not None:
        return str(job.task)
    return compress_tasks(job.tasks) if job.tasks else None


def output_path(pattern: str, job: SimJob) -> str:
    """A `--output` pattern filled in, relative paths from the job's directory."""
    task = job.task if job.task is not None else 4294967294
    values = {
        "j": job.job_id,
        "A": job.array_job_id or job.job_id,
        "a": task,
        "x": job.request.name,
        "u": job.request.user,
        "%": "%",
    }
    path = re.sub(r"%(\d*)([jAaxu%])", lambda m: str(values[m[2]]).zfill(int(m[1] or 0)), pattern)
    return path if path.startswith("/") else f"{job.request.directory.rstrip('/')}/{path}"


def _steps(job: SimJob, settings: Settings) -> tuple[Step, ...]:
    if job.batch is None:
        return ()
    start, end = _time(job.start), _time(job.end)
    state, code = job.batch
    rows = [
        Step("batch", state, _as_sacct_prints(code, settings), "batch", start, end, job.nodes[:1]),
        Step("extern", JobState.COMPLETED, ExitCode(0), "extern", start, end, job.nodes),
    ]
    rows += [
        Step(s.name, s.state, _as_sacct_prints(s.exit, settings), s.label, start, end, job.nodes) for s in job.steps
    ]
    return tuple(rows)


def _live_steps(job: SimJob) -> tuple[Step, ...]:
    if job.start is None:
        return ()
    start = _time(job.start)
    return (
        Step("batch", JobState.RUNNING, None, "batch", start, None, job.nodes[:1]),
        Step("extern", JobState.RUNNING, None, "extern", start, None, job.nodes),
    )


_BLANK = frozenset({JobState.TIMEOUT, JobState.CANCELLED, JobState.PREEMPTED, JobState.REQUEUED})


def _recorded_exit(state: JobState, job: SimJob, settings: Settings) -> ExitCode | None:
    return ExitCode(0) if state in _BLANK else _as_sacct_prints(job.exit, settings)


def _as_sacct_prints(code: ExitCode | None, settings: Settings) -> ExitCode | None:
    if code is None or code.code <= 128 or settings.keeps_large_codes:
        return code
    return ExitCode(code.code - 128, code.signal)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else at_epoch(math.floor(seconds))


def _bracketed(task: str | None, limit: int | None) -> str | None:
    """sacct writes the limit into the rest: `[4-9%2]`."""
    return f"{task[:-1]}%{limit}]" if task and task.endswith("]") and limit else task


def _shown_output(pattern: str, job: SimJob, controller: bool) -> str:
    """scontrol fills the pattern in, squeue does not, and shows none that was not given."""
    if controller:
        return output_path(pattern, job)
    if pattern in _DEFAULT_OUTPUTS:
        return ""
    return pattern if pattern.startswith("/") else f"{job.request.directory.rstrip('/')}/{pattern}"


_DEFAULT_OUTPUTS = frozenset({"slurm-%j.out", "slurm-%A_%a.out"})
