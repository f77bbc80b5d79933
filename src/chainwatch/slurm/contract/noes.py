"""Refusals, each with what it calls for; and silence, which is never an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chainwatch.model.job import ExitCode, Job
from chainwatch.slurm.backend import Refusal, SubmitUncertain
from chainwatch.slurm.contract.case import case
from chainwatch.slurm.contract.look import ended, in_queue, recorded, refused_for, silent
from chainwatch.slurm.contract.stage import Broken, Can, Program, Stage, expect, submission


@case(Can.SUBMIT)
def wrong_request_needs_a_person(stage: Stage) -> None:
    """An unknown QOS or partition, and a script that is gone, are refused and need a person."""
    options = ["--partition=cw-no-such-partition"]
    options += ["--qos=cw-no-such-qos"] if Can.ACCOUNTING in stage.can else []  # without it any QOS is taken
    for option in options:
        refused_for(_submitting(stage, option), Refusal.PERSON)
    gone = replace(submission(stage, Program()), script=f"{stage.directory}/cw-no-such-script.sh")
    refused_for(lambda: stage.backend.submit(gone), Refusal.PERSON)
    nowhere = replace(submission(stage, Program()), directory=f"{stage.directory}/cw-no-such-directory")
    refused_for(lambda: stage.backend.submit(nowhere), Refusal.PERSON)


@case(Can.SUBMIT, Can.SUBMIT_LIMIT)
def full_quota_passes_by_itself(stage: Stage) -> None:
    """A limit on submitted jobs is refused and calls for waiting."""
    with stage.limit_submissions(1) as options:
        first = stage.backend.submit(submission(stage, Program(seconds=60), *options))
        refused_for(_submitting(stage, *options), Refusal.WAIT)
        stage.backend.cancel(first)


@case(Can.SUBMIT, Can.CONTROLLER_DOWN, slow=True)
def controller_that_is_down_is_silence(stage: Stage) -> None:
    """While the controller is down every question is silence, a submission is uncertain, and nothing is made up."""
    job_id = stage.backend.submit(submission(stage, Program(seconds=300)))
    with stage.outage(Can.CONTROLLER_DOWN):
        _questions_are_silent(stage, job_id)
        _uncertain(_submitting(stage))
        silent(lambda: stage.backend.cancel(job_id))
    job = stage.wait_until(lambda: _heard(stage, job_id), 60, "the controller answers again")
    expect(not job.state.terminal, f"the job is {job.state} after the outage")
    stage.backend.cancel(job_id)


@case(Can.SUBMIT, Can.CONTROLLER_FROZEN, slow=True)
def submission_to_a_frozen_controller_is_uncertain(stage: Stage) -> None:
    """A submission that timed out may exist: its token is found when the controller wakes."""
    token = "cw:token=frozen-7f3a"
    with stage.outage(Can.CONTROLLER_FROZEN):
        _uncertain(_submitting(stage, f"--comment={token}"))
        silent(lambda: stage.backend.queue(stage.user))
    stage.wait_until(lambda: _by_comment(stage, token), 60, "the job of the lost submission is found")


@case(Can.SUBMIT, Can.REPLY_LOST_AFTER)
def lost_reply_after_acceptance(stage: Stage) -> None:
    """sbatch's reply is lost after the controller accepted the job: uncertain, and the token is found."""
    token = "cw:token=after-7f3a"
    with stage.outage(Can.REPLY_LOST_AFTER):
        _uncertain(_submitting(stage, f"--comment={token}"))
    job = stage.wait_until(lambda: _by_comment(stage, token), 30, "the job of the lost reply is found")
    stage.backend.cancel(job.job_id)


@case(Can.SUBMIT, Can.REPLY_LOST_BEFORE)
def lost_request_before_acceptance(stage: Stage) -> None:
    """sbatch is lost before the controller heard of it: as uncertain, and no job appears."""
    token = "cw:token=before-7f3a"
    with stage.outage(Can.REPLY_LOST_BEFORE):
        _uncertain(_submitting(stage, f"--comment={token}"))
    marker = stage.backend.submit(submission(stage, Program()))
    stage.wait_until(lambda: in_queue(stage, marker), 30, "a later job is in the queue")
    expect(_by_comment(stage, token) is None, "the lost job exists")


@case(Can.SUBMIT, Can.ACCOUNTING, Can.ACCOUNTING_DOWN, slow=True)
def accounting_that_is_down_is_silence(stage: Stage) -> None:
    """While accounting is down it is silent and the queue goes on; afterwards what ended meanwhile is there."""
    with stage.outage(Can.ACCOUNTING_DOWN):
        job_id = stage.backend.submit(submission(stage, Program(code=5)))
        stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
        silent(lambda: stage.backend.accounting([job_id]))
        silent(lambda: stage.backend.accounting(since=stage.now(), user=stage.user))
    row = stage.wait_until(lambda: _caught_up(stage, job_id), 120, "accounting has caught up")
    expect(row.exit == ExitCode(5), f"accounting says {row.state} {row.exit}")


@case(Can.SUBMIT, Can.AUTHENTICATION_DOWN, slow=True)
def authentication_that_is_down_is_silence(stage: Stage) -> None:
    """While authentication is down every question is silence and a submission is uncertain."""
    with stage.outage(Can.AUTHENTICATION_DOWN):
        silent(lambda: stage.backend.queue(stage.user))
        silent(lambda: stage.backend.job(1))
        if Can.ACCOUNTING in stage.can:
            silent(lambda: stage.backend.accounting([1]))
        _uncertain(_submitting(stage))
    marker = stage.backend.submit(submission(stage, Program()))
    stage.wait_until(lambda: in_queue(stage, marker), 30, "the cluster works again")


def _submitting(stage: Stage, *options: str) -> Callable[[], int]:
    return lambda: stage.backend.submit(submission(stage, Program(), *options))


def _questions_are_silent(stage: Stage, job_id: int) -> None:
    for question in (
        lambda: stage.backend.queue(stage.user),
        lambda: stage.backend.queue(None),
        lambda: stage.backend.job(job_id),
        lambda: stage.backend.script(job_id),
        lambda: stage.backend.nodes(),
        stage.backend.info,
    ):
        silent(question)


def _uncertain(submit: Callable[[], int]) -> None:
    silence = silent(submit)
    if not isinstance(silence, SubmitUncertain):
        raise Broken(f"the submission is not said to be uncertain: {silence}")


def _heard(stage: Stage, job_id: int) -> Job | None:
    return in_queue(stage, job_id)


def _by_comment(stage: Stage, comment: str) -> Job | None:
    return next((job for job in stage.backend.queue(stage.user) if job.comment == comment), None)


def _caught_up(stage: Stage, job_id: int) -> Job | None:
    return recorded(stage, job_id)
