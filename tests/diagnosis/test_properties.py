"""What holds of every verdict, whatever the evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from chainwatch.diagnosis import diagnose
from chainwatch.diagnosis.slurm_end import failed_steps
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
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CODES = st.sampled_from([None, *(ExitCode(*pair) for pair in [(0, 0), (1, 0), (0, 9), (137, 0), (0, 125), (0, 53)])])
STEPS = st.builds(
    Step, name=st.sampled_from(["batch", "0", "extern"]), state=st.sampled_from(JobState), exit=CODES, label=st.just("")
)
JOBS = st.builds(
    Job,
    attempt=st.just(AttemptId("c", 7, NOON)),
    shown_id=st.just("7"),
    state=st.sampled_from(JobState),
    source=st.just(Source.ACCOUNTING),
    reason=st.sampled_from(
        ["", "None", "JobHeldUser", "Prolog", "launch_failed_requeued_held", "TimeLimit", "BeginTime"]
    ),
    preempted_at=st.sampled_from([None, NOON]),
    nodes=st.sampled_from([(), ("n1",), ("n1", "n2")]),
    exit=CODES,
    derived_exit=CODES,
    cancelled_by=st.sampled_from([None, 0, 1001]),
    failed_node=st.sampled_from([None, "n2"]),
    steps=st.lists(STEPS, max_size=3).map(tuple),
)
FINDINGS = st.builds(
    Finding,
    signature=st.sampled_from(["a/b", "slurm/preemption", "slurm/sigterm-received", "slurm/task-exit"]),
    cause=st.sampled_from(Cause),
    specificity=st.integers(0, 100),
    where=st.builds(
        Line, st.sampled_from(["out", "err"]), st.integers(1, 50), st.text(max_size=20), st.integers(0, 900)
    ),
    order=st.integers(0, 1000),
    at=st.sampled_from([None, NOON]),
    effect=st.booleans(),
    retry=st.sampled_from([None, *Retry]),
    node=st.sampled_from([None, "n1", "n2", "elsewhere"]),
    rank=st.sampled_from([None, 0, 3]),
    survived=st.sampled_from([0, 1, 12]),
)
EVIDENCE = st.builds(
    lambda job, findings, completion, ours, readable, nodes: Evidence(
        job=job,
        logs=LogEvidence(
            ("out", "err"),
            readable=readable,
            findings=tuple(findings),
            tail=tuple(f.where for f in findings[-3:]),
            signalled=tuple(f.where for f in findings if f.signature.startswith("slurm/")),
        ),
        completion=completion,
        ended_by_us=ours,
        nodes=nodes,
    ),
    JOBS,
    st.lists(FINDINGS, max_size=6),
    st.builds(Completion, proof=st.sampled_from(Proof), configured=st.booleans()),
    st.sampled_from(["", "hang: no progress", "a duplicate of job 8"]),
    st.booleans(),
    st.sampled_from([(), (Node("n1", "down"),)]),
)


@settings(max_examples=200, deadline=None)
@given(EVIDENCE)
def test_every_evidence_has_a_verdict_that_holds_together(evidence: Evidence) -> None:
    verdict = diagnose(evidence)
    assert verdict.sentence
    assert verdict.advice
    assert verdict.fingerprint.startswith(verdict.cause.value)
    assert 0 < verdict.confidence <= 1
    assert (verdict.cause is Cause.COMPLETED) <= (verdict.retry is Retry.NO)
    assert bool(verdict.culprit_nodes) == (verdict.retry is Retry.YES_EXCLUDE_NODE)
    assert set(verdict.culprit_nodes) <= {*evidence.job.nodes, "n1", "n2", "elsewhere"}
    if verdict.root_line is not None:
        assert verdict.root_line in {finding.where.text for finding in evidence.logs.findings}
    assert verdict.cause not in {ruled.cause for ruled in verdict.ruled_out}


@settings(max_examples=200, deadline=None)
@given(EVIDENCE)
def test_done_needs_proof_or_a_clean_exit_that_nothing_contradicts(evidence: Evidence) -> None:
    verdict = diagnose(evidence)
    proven = evidence.completion.proof is Proof.YES
    if proven:
        assert verdict.outcome is Outcome.DONE
    if verdict.outcome is Outcome.DONE and not proven:
        job = evidence.job
        assert verdict.assumed
        assert not evidence.completion.configured
        assert job.state is JobState.COMPLETED
        assert job.preempted_at is None
        assert not failed_steps(job)


@settings(max_examples=100, deadline=None)
@given(EVIDENCE)
def test_what_is_proven_done_is_never_tried_again(evidence: Evidence) -> None:
    done = replace(evidence, completion=Completion(Proof.YES, configured=True))
    assert diagnose(done).retry is Retry.NO


@settings(max_examples=100, deadline=None)
@given(EVIDENCE)
def test_a_verdict_depends_on_the_evidence_alone(evidence: Evidence) -> None:
    assert diagnose(evidence) == diagnose(evidence)
