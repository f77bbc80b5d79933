"""From submission to the end: every way in which a job that was left alone, cancelled or held can go.

Where the cluster keeps no accounting, the queue alone is asked.
"""

from __future__ import annotations

from functools import partial

from chainwatch.model.job import ExitCode, JobState, Source
from chainwatch.model.probe import STEP_LABEL
from chainwatch.slurm.backend import Inside
from chainwatch.slurm.contract.case import case
from chainwatch.slurm.contract.look import ended, in_queue, recorded, refused, running, under_way
from chainwatch.slurm.contract.reading import NOBODYS_ID
from chainwatch.slurm.contract.stage import Broken, Can, Program, Stage, expect, submission
from chainwatch.slurm.probing import ANSWERED

ODD = "cw:token=7f|pipe,comma 'quote' \"double\" \\n ü"
"""A comment that breaks every parser which splits on usual characters."""


@case(Can.SUBMIT)
def submitted_job_is_found_again(stage: Stage) -> None:
    """A submitted job is in the queue with its name, comment, directory and script."""
    sent = submission(stage, Program(seconds=30), "--job-name=cw-contract", f"--comment={ODD}")
    job_id = stage.backend.submit(sent)
    job = stage.wait_until(lambda: in_queue(stage, job_id), 20, "the job is in the queue")
    expect(job.name == "cw-contract", f"its name is {job.name!r}")
    expect(job.comment == ODD, f"its comment is {job.comment!r}")
    expect(job.directory == stage.directory, f"its directory is {job.directory!r}")
    expect(job.command.split(" ")[0] == sent.script, f"its command is {job.command!r}")
    expect(job.user == stage.user, f"its user is {job.user!r}")
    shown = stage.backend.job(job_id)
    expect(shown is not None and shown.comment == ODD, f"scontrol shows {shown.comment if shown else None!r}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def job_name_may_hold_line_breaks(stage: Stage) -> None:
    """A name with line breaks and control characters neither breaks nor forges rows."""
    name = "a\nb\x1fJobId=1|x\tRUNNING"
    job_id = stage.backend.submit(submission(stage, Program(seconds=30), f"--job-name={name}"))
    job = stage.wait_until(lambda: in_queue(stage, job_id), 20, "the job is in the queue")
    expect(job.name == name, f"its name is {job.name!r}")
    shown = stage.backend.job(job_id)
    expect(shown is not None and shown.user == stage.user, f"scontrol shows {shown}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def script_is_kept_by_the_controller(stage: Stage) -> None:
    """The controller gives back the batch script that was submitted."""
    sent = submission(stage, Program(seconds=30))
    job_id = stage.backend.submit(sent)
    script = stage.backend.script(job_id)
    expect(bool(script) and script is not None and script.startswith(b"#!"), f"it gave {script!r}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def running_job_has_nodes_and_a_start(stage: Stage) -> None:
    """A running job has nodes and a start, and no end and no exit code."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=30)))
    job = stage.wait_until(lambda: running(stage, job_id), 60, "the job runs")
    expect(bool(job.nodes) and job.start is not None, f"nodes {job.nodes}, start {job.start}")
    expect(job.end is None and job.exit is None, f"end {job.end}, exit {job.exit}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT, Can.STEPS, Can.LOOK_INSIDE, slow=True)
def running_job_is_looked_into(stage: Stage) -> None:
    """A look into a running job answers from each of its nodes, and the job's end tells nothing of it."""
    program = Program(seconds=10, in_step=True)
    job_id = stage.backend.submit(submission(stage, program, "--nodes=2", "--ntasks-per-node=1"))
    job = under_way(stage, job_id)
    printed = _inside(stage).probe(job, b"import sys; print('seen by', *sys.argv[1:])", ["two words"]).splitlines()
    expect(printed.count("seen by two words") == len(job.nodes), f"the program printed {printed}")
    silent_nodes = [node for node in job.nodes if f"{STEP_LABEL} {node} {ANSWERED}" not in printed]
    expect(not silent_nodes, f"{silent_nodes} did not answer: {printed}")
    _same_end(stage, job_id, JobState.COMPLETED, ExitCode(0))
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id, steps=True), 30, "accounting has the end")
    expect(row.derived_exit in (None, ExitCode(0)), f"its derived exit code is {row.derived_exit}")
    expect(STEP_LABEL in [step.label for step in row.steps], f"the look's step is not named: {row.steps}")


@case(Can.SUBMIT, Can.STEPS, Can.MEASURE)
def running_step_is_measured(stage: Stage) -> None:
    """Slurm tells how much of the processor a running step has used, and of no other step than the program's own."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=60, in_step=True)))
    job = under_way(stage, job_id)
    inside = _inside(stage)
    measured = stage.wait_until(lambda: inside.usage(job) or None, 20, "Slurm measures the step")
    expect([each.step for each in measured] == ["0"], f"Slurm measured {measured}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def completed_job(stage: Stage) -> None:
    """Exit 0 is COMPLETED 0:0, in the queue and in accounting, with the batch step."""
    job_id = stage.backend.submit(submission(stage, Program()))
    _same_end(stage, job_id, JobState.COMPLETED, ExitCode(0))
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id, steps=True), 30, "accounting has the end")
    batch = row.step("batch")
    expect(batch is not None and batch.exit == ExitCode(0), f"its batch step is {batch}")


@case(Can.SUBMIT)
def failed_job(stage: Stage) -> None:
    """Exit 3 is FAILED 3:0, in the queue and in accounting."""
    job_id = stage.backend.submit(submission(stage, Program(code=3)))
    _same_end(stage, job_id, JobState.FAILED, ExitCode(3))


@case(Can.SUBMIT)
def job_killed_by_a_signal(stage: Stage) -> None:
    """A batch script that dies of SIGKILL is FAILED 0:9, which is no success."""
    job_id = stage.backend.submit(submission(stage, Program(killed_by=9)))
    _same_end(stage, job_id, JobState.FAILED, ExitCode(0, 9))


@case(Can.SUBMIT, Can.ACCOUNTING, Can.STEPS)
def completed_job_with_a_failed_step(stage: Stage) -> None:
    """A failed step in a COMPLETED job shows in the step's row and in the derived exit code."""
    job_id = stage.backend.submit(submission(stage, Program(steps=(3, 0))))
    stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    row = stage.wait_until(lambda: recorded(stage, job_id, steps=True), 30, "accounting has the end")
    expect(row.state is JobState.COMPLETED and row.exit == ExitCode(0), f"it is {row.state} {row.exit}")
    expect(row.derived_exit == ExitCode(3), f"its derived exit code is {row.derived_exit}")
    step = row.step("0")
    expect(step is not None and step.state is JobState.FAILED and step.exit == ExitCode(3), f"its step 0 is {step}")


@case(Can.SUBMIT)
def cancelled_while_running(stage: Stage) -> None:
    """A running job that is cancelled is CANCELLED, and accounting names who did it."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=60)))
    stage.wait_until(lambda: running(stage, job_id), 60, "the job runs")
    stage.backend.cancel(job_id)
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    expect(job.state is JobState.CANCELLED, f"the queue says {job.state}")
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
    expect(row.state is JobState.CANCELLED, f"it is {row.state}")
    expect(row.cancelled_by is not None, f"nobody is named: {row.raw_state!r}")


@case(Can.SUBMIT)
def cancelled_while_pending(stage: Stage) -> None:
    """A pending job that is cancelled is CANCELLED and never started."""
    job_id = stage.backend.submit(submission(stage, Program(), "--hold"))
    stage.backend.cancel(job_id, pending_only=True)
    job = stage.wait_until(lambda: ended(stage, job_id), 30, "the job ended")
    expect(job.state is JobState.CANCELLED and job.start is None, f"it is {job.state}, start {job.start}")
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
    expect(row.state is JobState.CANCELLED and row.start is None, f"accounting: {row.state}, start {row.start}")


@case(Can.SUBMIT)
def pending_only_spares_a_running_job(stage: Stage) -> None:
    """cancel(pending_only=True) leaves a job alone that started meanwhile."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=60)))
    stage.wait_until(lambda: running(stage, job_id), 60, "the job runs")
    stage.backend.cancel(job_id, pending_only=True)
    job = in_queue(stage, job_id)
    expect(job is not None and job.state is JobState.RUNNING, f"it is {job.state if job else 'gone'}")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT)
def signal_reaches_the_batch_script(stage: Stage) -> None:
    """cancel(signal=…) only sends the signal, and it reaches the batch script."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=60, on=(("USR1", 7),))))
    under_way(stage, job_id)
    stage.backend.cancel(job_id, signal="USR1")
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended by the signal")
    expect(job.state is JobState.FAILED and job.exit == ExitCode(7), f"it ended {job.state} {job.exit}")


@case(Can.SUBMIT)
def cancelling_what_is_gone_is_no_error(stage: Stage) -> None:
    """Cancelling a job that has ended, or that nobody knows, does nothing and is no error."""
    job_id = stage.backend.submit(submission(stage, Program()))
    stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    stage.backend.cancel(job_id)
    stage.backend.cancel(NOBODYS_ID)


@case(Can.SUBMIT)
def hold_and_release(stage: Stage) -> None:
    """A held job stays pending and is seen to be held; released, it runs."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=30), "--hold"))
    job = stage.wait_until(lambda: in_queue(stage, job_id), 20, "the job is in the queue")
    expect(job.held, f"it is not held: priority {job.priority}, reason {job.reason}")
    stage.backend.release(job_id)
    stage.wait_until(lambda: running(stage, job_id), 60, "the job runs")
    stage.backend.cancel(job_id)
    waiting = stage.backend.submit(submission(stage, Program(seconds=30), "--begin=now+1hour"))
    stage.backend.hold(waiting)
    job = stage.wait_until(lambda: in_queue(stage, waiting), 20, "the job is in the queue")
    expect(job.held, f"it is not held: priority {job.priority}, reason {job.reason}")
    stage.backend.cancel(waiting)


@case(Can.SUBMIT)
def acting_on_what_is_gone_is_refused(stage: Stage) -> None:
    """Hold, release and requeue of a job that nobody knows are refused, not silently dropped."""
    for act in (stage.backend.hold, stage.backend.release, stage.backend.requeue):
        refused(partial(act, NOBODYS_ID))


@case(Can.SUBMIT, Can.ACCOUNTING, slow=True)
def controller_forgets_and_accounting_remembers(stage: Stage) -> None:
    """Some time after its end the controller forgets a job; accounting still has it."""
    age = stage.backend.info().min_job_age
    job_id = stage.backend.submit(submission(stage, Program(code=4)))
    stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    stage.wait_until(lambda: in_queue(stage, job_id) is None or None, age + 90, "the queue forgets the job")
    stage.wait_until(lambda: stage.backend.job(job_id) is None or None, 60, "the controller forgets the job")
    rows = stage.backend.accounting([job_id])
    expect(any(row.exit == ExitCode(4) for row in rows), f"accounting has {rows}")


@case(Can.SUBMIT, Can.TIME_LIMIT, slow=True)
def job_that_hits_its_time_limit(stage: Stage) -> None:
    """A job that runs longer than its limit is TIMEOUT, whatever its script returns."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=300, on=(("TERM", 0),)), "--time=1"))
    job = stage.wait_until(lambda: ended(stage, job_id), 180, "the job ended")
    expect(job.state is JobState.TIMEOUT, f"it is {job.state}")
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
    expect(row.state is JobState.TIMEOUT, f"accounting says {row.state}")


def _inside(stage: Stage) -> Inside:
    if not isinstance(stage.backend, Inside):
        raise Broken("the backend cannot look inside a job")
    return stage.backend


def _same_end(stage: Stage, job_id: int, state: JobState, exit_code: ExitCode) -> None:
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    expect(job.state is state and job.end is not None, f"the queue says {job.state}, end {job.end}")
    expect(job.exit == exit_code, f"the queue says {job.exit}")
    if Can.ACCOUNTING not in stage.can:
        return
    row = stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")
    expect(row.source is Source.ACCOUNTING and row.attempt == job.attempt, f"accounting has {row.attempt}")
    expect(row.state is state and row.exit == exit_code, f"accounting says {row.state} {row.exit}")
    expect(row.end is not None and row.start is not None, f"accounting has start {row.start}, end {row.end}")
