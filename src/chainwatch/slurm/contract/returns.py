"""What comes back or does not: requeue, preemption, failed nodes."""

from __future__ import annotations

from chainwatch.model.job import Job, JobState
from chainwatch.slurm.contract.case import case
from chainwatch.slurm.contract.look import ended, in_queue, recorded, refused, running, under_way
from chainwatch.slurm.contract.stage import Can, Program, Stage, expect, submission


@case(Can.SUBMIT, slow=True)
def requeued_job_is_a_new_attempt(stage: Stage) -> None:
    """A requeued job keeps its id and gets a new submit time; accounting has both attempts."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=120), "--requeue"))
    first = under_way(stage, job_id)
    stage.backend.requeue(job_id)
    second = stage.wait_until(lambda: _next_attempt(stage, first), 60, "the job is back in the queue")
    expect(not second.state.terminal, f"it came back as {second.state}")
    expect(second.restarts == 1, f"its restart count is {second.restarts}")
    if Can.ACCOUNTING in stage.can:
        rows = stage.wait_until(lambda: _both_rows(stage, first, second), 30, "accounting has both attempts")
        expect(rows[0].state is JobState.REQUEUED and rows[0].end is not None, f"the first row is {rows[0].state}")
    stage.wait_until(lambda: running(stage, job_id), 180, "the job runs again")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def ended_job_may_not_be_requeued_when_it_said_so(stage: Stage) -> None:
    """A job submitted with --no-requeue refuses to be requeued."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=60), "--no-requeue"))
    job = under_way(stage, job_id, 1)
    expect(job.requeue is False, f"its requeue flag is {job.requeue}")
    refused(lambda: stage.backend.requeue(job_id))
    stage.backend.cancel(job_id)


@case(Can.SUBMIT, Can.PREEMPT, Can.ACCOUNTING, slow=True)
def preempted_job(stage: Stage) -> None:
    """A preempted job has a preemption time while it still runs, and ends as PREEMPTED."""
    options = stage.preemptable(requeue=False)
    job_id = stage.backend.submit(submission(stage, Program(seconds=300), *options))
    under_way(stage, job_id)
    stage.preempt(job_id)
    told = stage.wait_until(lambda: _told(stage, job_id), 60, "the job is told of its preemption")
    expect(told.state.on_nodes or told.state is JobState.PREEMPTED, f"it is {told.state}")
    job = stage.wait_until(lambda: ended(stage, job_id), 90, "the job ended")
    expect(job.state is JobState.PREEMPTED, f"it is {job.state}")
    expect(job.preempted_at is not None, "the queue dropped the preemption time at the end")
    row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
    expect(row.state is JobState.PREEMPTED, f"accounting says {row.state}")


@case(Can.SUBMIT, Can.PREEMPT, Can.STEPS, Can.ACCOUNTING, slow=True)
def step_that_ends_in_its_grace(stage: Stage) -> None:
    """A step that exits 1 within the grace may make the job FAILED: only the preemption time tells why it ended."""
    options = stage.preemptable(requeue=False)
    program = Program(seconds=300, in_step=True, on=(("TERM", 1),))
    job_id = stage.backend.submit(submission(stage, program, *options))
    under_way(stage, job_id)
    stage.preempt(job_id)
    job = stage.wait_until(lambda: ended(stage, job_id), 90, "the job ended")
    expect(job.state in (JobState.FAILED, JobState.PREEMPTED), f"it is {job.state}")
    expect(job.preempted_at is not None, "nothing tells of the preemption")
    row = stage.wait_until(lambda: recorded(stage, job_id, steps=True), 30, "accounting has the end")
    step = row.step("0")
    expect(step is not None and step.state is JobState.FAILED, f"its step 0 is {step}")


@case(Can.SUBMIT, Can.PREEMPT_REQUEUE, Can.ACCOUNTING, slow=True)
def preempted_job_that_comes_back(stage: Stage) -> None:
    """Preempted in mode REQUEUE, the id comes back as a new attempt, and the first one is over in accounting."""
    options = stage.preemptable(requeue=True)
    job_id = stage.backend.submit(submission(stage, Program(seconds=300), "--requeue", *options))
    first = under_way(stage, job_id)
    stage.preempt(job_id)
    second = stage.wait_until(lambda: _next_attempt(stage, first), 120, "the job is back in the queue")
    expect(not second.state.terminal, f"it came back as {second.state}")
    rows = stage.wait_until(lambda: _both_rows(stage, first, second), 30, "accounting has both attempts")
    expect(rows[0].state in (JobState.PREEMPTED, JobState.REQUEUED), f"the first row is {rows[0].state}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT, Can.FAIL_NODE, slow=True)
def job_whose_node_fails(stage: Stage) -> None:
    """A job whose node fails is NODE_FAIL, and the node is no longer usable."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=300), "--no-requeue"))
    node = under_way(stage, job_id).nodes[0]
    stage.fail_node(node)
    try:
        job = stage.wait_until(lambda: ended(stage, job_id), 120, "the job ended")
        expect(job.state is JobState.NODE_FAIL, f"it is {job.state}")
        if Can.ACCOUNTING in stage.can:
            row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
            expect(row.state is JobState.NODE_FAIL and node in row.nodes, f"accounting: {row.state} on {row.nodes}")
        down = stage.backend.nodes([node])
        expect(bool(down) and not down[0].usable, f"the node is {down}")
        expect(bool(down[0].reason), f"nobody said why the node is down: {down}")
    finally:
        stage.restore_node(node)
    stage.wait_until(lambda: stage.backend.nodes([node])[0].usable or None, 60, "the node is back")


@case(Can.SUBMIT, Can.FAIL_NODE, slow=True)
def job_that_survives_its_node(stage: Stage) -> None:
    """With --requeue a job whose node fails comes back under its id, and its first attempt is NODE_FAIL."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=300), "--requeue"))
    first = under_way(stage, job_id)
    stage.fail_node(first.nodes[0])
    try:
        second = stage.wait_until(lambda: _next_attempt(stage, first), 120, "the job is back in the queue")
        expect(not second.state.terminal, f"it came back as {second.state}")
        if Can.ACCOUNTING in stage.can:
            rows = stage.wait_until(lambda: _both_rows(stage, first, second), 30, "accounting has both attempts")
            expect(rows[0].state in (JobState.NODE_FAIL, JobState.REQUEUED), f"the first row is {rows[0].state}")
        stage.backend.cancel(job_id)
    finally:
        stage.restore_node(first.nodes[0])


def _told(stage: Stage, job_id: int) -> Job | None:
    job = in_queue(stage, job_id)
    return job if job is not None and job.preempted_at is not None else None


def _next_attempt(stage: Stage, first: Job) -> Job | None:
    """The same id, once it is another attempt."""
    job = in_queue(stage, first.job_id)
    return job if job is not None and job.attempt != first.attempt else None


def _both_rows(stage: Stage, first: Job, second: Job) -> tuple[Job, Job] | None:
    rows = {row.attempt: row for row in stage.backend.accounting([first.job_id])}
    if first.attempt not in rows or second.attempt not in rows:
        return None
    return rows[first.attempt], rows[second.attempt]
