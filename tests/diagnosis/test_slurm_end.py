# ruff: noqa: E501 - rows of tables and lines of logs stay whole
"""What Slurm's own facts say, as a table: each row was seen on a real Slurm, or in a tool that misread it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chainwatch.diagnosis import diagnose
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Node, Source, Step
from chainwatch.model.verdict import (
    Cause,
    Completion,
    Evidence,
    Finding,
    Line,
    LogEvidence,
    Outcome,
    Proof,
    Retry,
    Verdict,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S = JobState


def a_job(state: JobState, code: str = "0:0", **more: object) -> Job:
    exit_code = ExitCode(*map(int, code.split(":"))) if code else None
    job = Job(AttemptId("c", 7, NOON), "7", state, Source.ACCOUNTING, exit=exit_code, start=NOON, nodes=("n1",))
    return replace(job, **more)  # type: ignore[arg-type]


def a_step(name: str, state: JobState, code: str | None, label: str = "") -> Step:
    return Step(name, state, None if code is None else ExitCode(*map(int, code.split(":"))), label)


def a_finding(text: str, cause: Cause, specificity: int, order: int = 1, **more: object) -> Finding:
    finding = Finding("test/x", cause, specificity, Line("log", order, text), order)
    return replace(finding, **more)  # type: ignore[arg-type]


def judged(job: Job, *findings: Finding, **more: object) -> Verdict:
    evidence = Evidence(job, frozenset({Source.ACCOUNTING, Source.NODES}), LogEvidence(("log",), findings=findings))
    return diagnose(replace(evidence, **more))  # type: ignore[arg-type]


OK = (a_step("batch", S.COMPLETED, "0:0"), a_step("extern", S.COMPLETED, "0:0"), a_step("0", S.COMPLETED, "0:0"))
STEP_FAILED = (a_step("batch", S.COMPLETED, "0:0"), a_step("0", S.FAILED, "1:0"))
STEP_OOM = (a_step("batch", S.FAILED, "1:0"), a_step("0", S.OUT_OF_MEMORY, "0:125"))
PROBED = (*OK, a_step("1", S.FAILED, "1:0", "chainwatch-probe"))
PREEMPTED_AT = datetime(2026, 1, 1, 13, tzinfo=UTC)

TABLE = [
    ("exit 1 says nothing", a_job(S.FAILED, "1:0"), Outcome.FAILED, Cause.UNKNOWN, Retry.YES),
    ("22.05 records a preemption with grace as FAILED 1:0",
     a_job(S.FAILED, "1:0", preempted_at=PREEMPTED_AT, steps=STEP_FAILED), Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES),
    ("22.05 records a preemption with grace as COMPLETED 0:0",
     a_job(S.COMPLETED, preempted_at=PREEMPTED_AT, steps=STEP_FAILED), Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES),
    ("COMPLETED with every step 0:0 after PreemptTime is no end of training",
     a_job(S.COMPLETED, preempted_at=PREEMPTED_AT, steps=OK), Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES),
    ("24.11 records PREEMPTED 0:0", a_job(S.PREEMPTED), Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES),
    ("COMPLETED 0:0, every step 0:0", a_job(S.COMPLETED, steps=OK), Outcome.DONE, Cause.COMPLETED, Retry.NO),
    ("COMPLETED although a step failed", a_job(S.COMPLETED, steps=STEP_FAILED), Outcome.FAILED, Cause.UNKNOWN, Retry.YES),
    ("COMPLETED although DerivedExitCode is 3",
     a_job(S.COMPLETED, derived_exit=ExitCode(3)), Outcome.FAILED, Cause.UNKNOWN, Retry.YES),
    ("our own failing probe makes nothing of a good end",
     a_job(S.COMPLETED, derived_exit=ExitCode(1), steps=PROBED), Outcome.DONE, Cause.COMPLETED, Retry.NO),
    ("OUT_OF_MEMORY 0:125", a_job(S.OUT_OF_MEMORY, "0:125"), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("OOM inside a step looks like FAILED 1:0", a_job(S.FAILED, "1:0", steps=STEP_OOM), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("OOM known only by DerivedExitCode 0:125",
     a_job(S.FAILED, "1:0", derived_exit=ExitCode(0, 125)), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("time limit", a_job(S.TIMEOUT), Outcome.TIMED_OUT, Cause.TIME_LIMIT, Retry.YES),
    ("a missed deadline does not come back", a_job(S.DEADLINE), Outcome.TIMED_OUT, Cause.TIME_LIMIT, Retry.NO),
    ("SIGKILL without a word, 22.05's 9:0", a_job(S.FAILED, "9:0"), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("SIGKILL without a word, 137:0", a_job(S.FAILED, "137:0"), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("SIGKILL of the batch script", a_job(S.FAILED, "0:9", reason="JobLaunchFailure"), Outcome.FAILED, Cause.OOM_HOST, Retry.NO),
    ("SIGABRT of the batch script", a_job(S.FAILED, "0:6", reason="JobLaunchFailure"), Outcome.FAILED, Cause.UNKNOWN, Retry.YES),
    ("SIGSEGV of the batch script", a_job(S.FAILED, "0:11", reason="JobLaunchFailure"), Outcome.FAILED, Cause.UNKNOWN, Retry.YES),
    ("SIGILL needs another processor", a_job(S.FAILED, "132:0"), Outcome.FAILED, Cause.ENVIRONMENT, Retry.NO),
    ("an unhandled warning signal", a_job(S.FAILED, "0:10"), Outcome.FAILED, Cause.TIME_LIMIT, Retry.YES),
    ("RaisedSignal in the reason",
     a_job(S.FAILED, "0:12", reason="RaisedSignal:12(User_defined_signal_2)"), Outcome.FAILED, Cause.TIME_LIMIT, Retry.YES),
    ("the output directory is missing", a_job(S.FAILED, "0:53", reason="JobLaunchFailure"), Outcome.FAILED, Cause.USER_CONFIG, Retry.NO),
    ("the output directory is missing, as told by the reason",
     a_job(S.FAILED, "", reason="RaisedSignal:53(Real-time_signal_19)"), Outcome.FAILED, Cause.USER_CONFIG, Retry.NO),
    ("command not found", a_job(S.FAILED, "127:0"), Outcome.FAILED, Cause.ENVIRONMENT, Retry.NO),
    ("impossible request", a_job(S.FAILED, "1:0", reason="BadConstraints"), Outcome.FAILED, Cause.USER_CONFIG, Retry.NO),
    ("prolog", a_job(S.FAILED, "1:0", reason="Prolog"), Outcome.NODE_FAILED, Cause.HARDWARE_NODE, Retry.YES_EXCLUDE_NODE),
    ("NODE_FAIL 0:0", a_job(S.NODE_FAIL), Outcome.NODE_FAILED, Cause.HARDWARE_NODE, Retry.YES_EXCLUDE_NODE),
    ("BOOT_FAIL", a_job(S.BOOT_FAIL), Outcome.NODE_FAILED, Cause.HARDWARE_NODE, Retry.YES_EXCLUDE_NODE),
    ("scancel by somebody", a_job(S.CANCELLED, cancelled_by=1001), Outcome.CANCELLED, Cause.CANCELLED_BY_USER, Retry.NO),
    ("scancel by root", a_job(S.CANCELLED, cancelled_by=0), Outcome.CANCELLED, Cause.CANCELLED_BY_OTHER, Retry.NO),
    ("a dependency that can never be satisfied",
     a_job(S.CANCELLED, reason="Dependency", start=None), Outcome.CANCELLED, Cause.USER_CONFIG, Retry.NO),
    ("launch failed requeued held, as squeue spells it",
     a_job(S.PENDING, reason="launch failed requeued held", priority=0), Outcome.NODE_FAILED, Cause.HARDWARE_NODE,
     Retry.YES_EXCLUDE_NODE),
    ("launch failed requeued held, as scontrol spells it",
     a_job(S.PENDING, reason="launch_failed_requeued_held", priority=0), Outcome.NODE_FAILED, Cause.HARDWARE_NODE,
     Retry.YES_EXCLUDE_NODE),
    ("held by its user", a_job(S.PENDING, reason="JobHeldUser"), Outcome.CANCELLED, Cause.CANCELLED_BY_USER, Retry.NO),
    ("held by an administrator", a_job(S.PENDING, reason="JobHeldAdmin"), Outcome.CANCELLED, Cause.CANCELLED_BY_OTHER, Retry.NO),
    ("requeued by Slurm itself", a_job(S.PENDING, reason="BeginTime"), Outcome.ENDED, Cause.UNKNOWN, Retry.WAIT),
    ("still running", a_job(S.RUNNING), Outcome.UNKNOWN, Cause.UNKNOWN, Retry.WAIT),
    ("a state word of the future", a_job(S.UNKNOWN, ""), Outcome.UNKNOWN, Cause.UNKNOWN, Retry.YES),
]  # fmt: skip


@pytest.mark.parametrize(("_", "job", "outcome", "cause", "retry"), TABLE, ids=[row[0] for row in TABLE])
def test_slurm_alone(_: str, job: Job, outcome: Outcome, cause: Cause, retry: Retry) -> None:
    verdict = judged(job)
    assert (verdict.outcome, verdict.cause, verdict.retry) == (outcome, cause, retry)
    assert verdict.sentence
    assert verdict.advice
    assert 0 < verdict.confidence <= 1


def test_a_clean_exit_without_a_rule_is_done_but_only_assumed() -> None:
    assert judged(a_job(S.COMPLETED, steps=OK)).assumed


def test_proof_beats_exit_codes_and_states() -> None:
    for state in (S.FAILED, S.TIMEOUT, S.OUT_OF_MEMORY, S.NODE_FAIL, S.PREEMPTED, S.CANCELLED):
        verdict = judged(a_job(state, "1:0"), completion=Completion(Proof.YES, configured=True))
        assert (verdict.outcome, verdict.retry, verdict.assumed) == (Outcome.DONE, Retry.NO, False)
        assert verdict.ruled_out


def test_a_clean_exit_that_the_rule_refutes_is_not_done() -> None:
    verdict = judged(a_job(S.COMPLETED, steps=OK), completion=Completion(Proof.NO, configured=True))
    assert (verdict.outcome, verdict.retry) == (Outcome.ENDED, Retry.YES)


def test_a_clean_exit_whose_rule_cannot_be_read_waits() -> None:
    verdict = judged(a_job(S.COMPLETED, steps=OK), completion=Completion(Proof.UNKNOWN, configured=True))
    assert (verdict.outcome, verdict.retry) == (Outcome.ENDED, Retry.WAIT)


def test_a_completion_text_is_a_cause_and_no_proof_where_slurm_disagrees() -> None:
    text = a_finding("Training finished", Cause.COMPLETED, 70)
    verdict = judged(a_job(S.FAILED, "134:0"), text)
    assert (verdict.outcome, verdict.cause, verdict.retry) == (Outcome.ENDED, Cause.COMPLETED, Retry.NO)


def test_a_completion_text_does_not_outvote_a_rule_that_says_no() -> None:
    text = a_finding("Training finished", Cause.COMPLETED, 70)
    verdict = judged(a_job(S.FAILED, "1:0"), text, completion=Completion(Proof.NO, configured=True))
    assert verdict.cause is not Cause.COMPLETED


def test_a_completion_text_that_training_went_on_after_is_old() -> None:
    text = a_finding("Training finished", Cause.COMPLETED, 70, survived=5)
    assert judged(a_job(S.FAILED, "1:0"), text).cause is Cause.UNKNOWN


def test_a_clean_exit_after_a_signal_is_not_taken_for_done() -> None:
    told = a_finding("Received SIGTERM: 15", Cause.UNKNOWN, 9, effect=True, signature="slurm/sigterm-received")
    logs = LogEvidence(("log",), findings=(told,), signalled=(told.where,))
    verdict = diagnose(Evidence(a_job(S.COMPLETED, steps=OK), frozenset(), logs))
    assert (verdict.outcome, verdict.cause, verdict.retry) == (Outcome.ENDED, Cause.PREEMPTION, Retry.YES)


def test_somebody_elses_scancel_is_told_from_ones_own_by_the_uid() -> None:
    cancelled = a_job(S.CANCELLED, cancelled_by=1001)
    assert judged(cancelled, user_uid=1001).cause is Cause.CANCELLED_BY_USER
    assert judged(cancelled, user_uid=1002).cause is Cause.CANCELLED_BY_OTHER


def test_the_failed_node_is_the_one_that_slurm_or_sinfo_names() -> None:
    two = a_job(S.NODE_FAIL, nodes=("n1", "n2"))
    assert judged(replace(two, failed_node="n2")).culprit_nodes == ("n2",)
    assert judged(two, nodes=(Node("n1", "allocated"), Node("n2", "down"))).culprit_nodes == ("n2",)
    unnamed = judged(two)
    assert (unnamed.culprit_nodes, unnamed.retry) == ((), Retry.YES)


def test_the_node_that_srun_names_is_the_culprit_not_the_one_that_prints_the_banner() -> None:
    named = a_finding("srun: error: Node failure on n2", Cause.HARDWARE_NODE, 96, node="n2")
    banner = a_finding("*** STEP 1.0 ON n1 CANCELLED DUE TO NODE FAILURE", Cause.HARDWARE_NODE, 84, 2)
    assert judged(a_job(S.NODE_FAIL, nodes=("n1", "n2")), banner, named).culprit_nodes == ("n2",)


def test_the_node_that_prints_the_banner_is_not_blamed_where_no_other_word_names_one() -> None:
    banner = a_finding(
        "*** JOB 7 ON n1 CANCELLED AT 2026-01-01T13:00:00 DUE TO NODE FAILURE ***", Cause.HARDWARE_NODE, 84
    )
    verdict = judged(a_job(S.NODE_FAIL, "1:0", nodes=("n1", "n2")), banner)
    assert (verdict.cause, verdict.retry, verdict.culprit_nodes) == (Cause.HARDWARE_NODE, Retry.YES, ())


def test_what_chainwatch_ended_itself_is_no_scancel_of_a_person() -> None:
    verdict = judged(a_job(S.CANCELLED, cancelled_by=1001), ended_by_us="hang: no progress for 40 minutes")
    assert (verdict.outcome, verdict.cause) == (Outcome.HUNG, Cause.HANG)


def test_a_hang_that_was_ended_blames_the_nodes_that_the_probe_named() -> None:
    why = "hang: silent for 40 minutes; rank 5 on n2 is stopped"
    job = a_job(S.CANCELLED, cancelled_by=1001, nodes=("n1", "n2"))
    verdict = judged(job, ended_by_us=why, suspects=("n2",))
    assert (verdict.cause, verdict.retry, verdict.culprit_nodes) == (Cause.HANG, Retry.YES_EXCLUDE_NODE, ("n2",))
    assert judged(replace(job, state=S.NODE_FAIL, failed_node="n2"), ended_by_us=why).cause is Cause.HARDWARE_NODE
    done = judged(job, ended_by_us=why, completion=Completion(Proof.YES, configured=True))
    assert done.outcome is Outcome.DONE, "it finished after all"


def test_our_probes_stay_out_of_the_evidence_and_a_wrapped_training_step_does_not() -> None:
    killed = a_step("2", S.OUT_OF_MEMORY, "0:125", "chainwatch-probe")
    assert judged(a_job(S.FAILED, "1:0", steps=(*OK, killed))).cause is not Cause.OOM_HOST
    cut = a_step("2", S.CANCELLED, None, "chainwatch-probe")  # the job ended while it was looked at
    assert judged(a_job(S.COMPLETED, derived_exit=ExitCode(0, 15), steps=(*OK, cut))).outcome is Outcome.DONE
    wrapped = a_step("0", S.FAILED, "1:0", "chainwatch")  # srun chainwatch exec -- train
    assert judged(a_job(S.COMPLETED, steps=(*OK, wrapped))).outcome is Outcome.FAILED


def test_a_hang_before_the_time_limit_is_a_hang() -> None:
    hang = a_finding("Watchdog caught collective operation timeout", Cause.HANG, 44, 1)
    limit = a_finding("CANCELLED DUE TO TIME LIMIT", Cause.TIME_LIMIT, 90, 2)
    assert judged(a_job(S.TIMEOUT), hang, limit).cause is Cause.HANG
    after = replace(hang, order=3)
    assert judged(a_job(S.TIMEOUT), limit, after).cause is Cause.TIME_LIMIT


def test_a_fault_that_training_survived_is_not_the_cause() -> None:
    fault = a_finding("uncorrectable ECC error", Cause.HARDWARE_GPU, 95, 1, survived=12)
    verdict = judged(a_job(S.TIMEOUT), fault)
    assert verdict.cause is Cause.TIME_LIMIT
    assert Cause.HARDWARE_GPU in {ruled.cause for ruled in verdict.ruled_out}


def test_the_first_failing_rank_is_the_cause_and_what_others_print_is_ruled_out() -> None:
    first = a_finding("ValueError: bad", Cause.USER_CODE, 42, 1, rank=3)
    watchdog = a_finding("Watchdog caught collective operation timeout", Cause.HANG, 44, 2, rank=0)
    fabric = a_finding("Got completion with error 12", Cause.NETWORK_FABRIC, 74, 3, rank=1)
    verdict = judged(a_job(S.FAILED, "1:0"), watchdog, fabric, first)
    assert verdict.cause is Cause.USER_CODE
    assert {Cause.HANG, Cause.NETWORK_FABRIC} <= {ruled.cause for ruled in verdict.ruled_out}


def test_effects_above_the_cause_do_not_win() -> None:
    effect = a_finding("Connection reset by peer", Cause.NETWORK_FABRIC, 26, 1, effect=True)
    cause = a_finding("CUDA out of memory", Cause.OOM_GPU, 92, 2)
    assert judged(a_job(S.FAILED, "1:0"), effect, cause).cause is Cause.OOM_GPU


def test_the_notice_that_ended_an_earlier_attempt_in_the_same_file_is_not_this_ones_cause() -> None:
    notice = a_finding(
        "*** JOB 7 CANCELLED DUE TO PREEMPTION ***", Cause.PREEMPTION, 90, 1, signature="slurm/preemption"
    )
    torn = a_finding("PytorchStreamReader failed reading zip archive", Cause.CHECKPOINT_CORRUPT, 90, 2)
    assert judged(a_job(S.FAILED, "1:0"), notice, torn).cause is Cause.CHECKPOINT_CORRUPT
    assert judged(a_job(S.UNKNOWN, ""), notice, torn).cause is Cause.PREEMPTION
    assert judged(a_job(S.UNKNOWN, ""), notice, replace(torn, order=9000)).cause is Cause.CHECKPOINT_CORRUPT


def test_a_script_that_hides_its_exit_code_is_not_done() -> None:
    error = a_finding("OSError: [Errno 5] Input/output error", Cause.STORAGE, 80, retry=Retry.WAIT)
    error = replace(error, where=replace(error.where, offset=100))
    logs = LogEvidence(("log",), findings=(error,), tail=(error.where,))
    evidence = Evidence(a_job(S.COMPLETED, steps=OK), frozenset(), logs)
    verdict = diagnose(evidence)
    assert (verdict.outcome, verdict.cause, verdict.retry) == (Outcome.FAILED, Cause.STORAGE, Retry.NO)
    refuted = diagnose(replace(evidence, completion=Completion(Proof.NO, configured=True)))
    assert (refuted.outcome, refuted.cause, refuted.retry) == (Outcome.FAILED, Cause.STORAGE, Retry.WAIT)


def test_an_error_that_more_than_a_few_lines_follow_does_not_undo_a_clean_exit() -> None:
    error = a_finding("OSError: [Errno 5] Input/output error", Cause.STORAGE, 80)
    error = replace(error, where=replace(error.where, offset=0))
    more = tuple(Line("log", n, f"went on {n}", n * 10) for n in range(2, 12))
    logs = LogEvidence(("log",), findings=(error,), tail=(error.where, *more))
    verdict = diagnose(Evidence(a_job(S.COMPLETED, steps=OK), frozenset(), logs))
    assert (verdict.outcome, verdict.retry) == (Outcome.DONE, Retry.NO)


def test_an_empty_log_is_said_to_be_empty() -> None:
    verdict = diagnose(Evidence(a_job(S.FAILED, "1:0"), logs=LogEvidence(files=("a.log",))))
    assert "the log is empty, so only Slurm's facts count" in verdict.weaker


def test_unreadable_logs_weaken_the_verdict_and_say_so() -> None:
    logs = LogEvidence(("log",), readable=False, problem="log: Stale file handle")
    verdict = diagnose(Evidence(a_job(S.FAILED, "1:0"), frozenset({Source.ACCOUNTING}), logs))
    assert "Stale file handle" in " ".join(verdict.weaker)


def test_a_directory_of_logs_that_is_not_there_is_named_with_the_command_that_makes_it() -> None:
    logs = LogEvidence(("/r/logs/7.out",), readable=False, problem="no such file", no_directory=("/r/logs",))
    verdict = diagnose(Evidence(a_job(S.FAILED, "0:53"), logs=logs))
    assert "/r/logs does not exist" in verdict.sentence
    assert verdict.advice == "Make the directory of its log: mkdir -p /r/logs"
    vague = diagnose(Evidence(a_job(S.FAILED, "1:0"), logs=logs))
    assert vague.advice == verdict.advice
    assert "/r/logs does not exist" in vague.weaker[0]
    killed = diagnose(Evidence(a_job(S.TIMEOUT), logs=logs))
    assert "mkdir" not in killed.advice, "the cause is known"


def test_the_last_echo_of_a_script_does_not_finish_a_program_that_died() -> None:
    died = a_finding("ValueError: bad", Cause.USER_CODE, 42)
    for words in ("script-words", "training-words"):
        echo = a_finding("Job finished at Mon", Cause.COMPLETED, 70, 2, signature=f"completion/{words}")
        assert judged(a_job(S.FAILED, "1:0"), died, echo).cause is Cause.USER_CODE
        assert judged(a_job(S.FAILED, "1:0"), replace(died, survived=3), echo).cause is Cause.COMPLETED
    own = a_finding("{'train_runtime': 8811.2}", Cause.COMPLETED, 84, 2, signature="completion/hf-trainer")
    assert judged(a_job(S.FAILED, "1:0"), died, own).cause is Cause.COMPLETED
