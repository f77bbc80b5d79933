"""What the API says, as documented models: made from the store's rows, with secrets left behind.

A chain's captured environment never leaves the store: people keep tokens in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from chainwatch.model.chain import Attempt, ChainState, Decision, Desired, Mode
from chainwatch.model.text import clean, redact
from chainwatch.model.verdict import Line, Verdict
from chainwatch.store.codec import decision_kind
from chainwatch.store.records import ChainRecord, Notice, Save
from chainwatch.store.standing import standing


class Said(BaseModel):
    """Every answer knows its fields; more may come."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ChainOut(Said):
    """One chain."""

    name: str
    cluster: str
    mode: Mode
    state: ChainState
    state_since: datetime | None
    desired: Desired
    released: bool
    """It is no longer in the configuration, and left alone."""
    sentence: str
    """What was decided last, and why."""
    wait_until: datetime | None
    step: int | None
    saved_step: int | None
    target: int | None
    steps_per_second: float | None
    """Over the recent past of the running job."""
    eta_seconds: float | None
    """Of training left, at that rate."""
    eta_overall_seconds: float | None
    """Until the final step at the pace of the last seven days, interruptions included."""
    at_risk_steps: int | None
    """Steps since the newest intact checkpoint, of a job that runs."""
    at_risk_seconds: float | None
    """The time that they took."""
    step_at: datetime | None
    """When the newest step was first seen."""
    tokens: int | None
    loss: float | str | None
    phase: str


class LineOut(Said):
    """One piece of evidence, verbatim apart from control characters and secrets."""

    source: str
    line: int | None
    text: str


class VerdictOut(Said):
    """Why an attempt ended."""

    outcome: str
    cause: str
    retry: str
    confidence: float
    sentence: str
    advice: str
    culprit_nodes: list[str]
    evidence: list[LineOut]
    ruled_out: list[str]
    weaker: list[str]
    """What could not be looked at."""


class AttemptOut(Said):
    """One run of one job."""

    number: int
    job: str
    state: str
    submitted: datetime
    started: datetime | None
    ended: datetime | None
    nodes: list[str]
    step_before: int | None
    step_after: int | None
    saved_before: int | None
    saved_after: int | None
    resumed_from: str | None
    verdict: VerdictOut | None


class DecisionOut(Said):
    """One decision."""

    at: datetime
    attempt: int | None
    decision: str
    sentence: str


class NodeOut(Said):
    """A node that is kept away from."""

    node: str
    why: str
    since: datetime
    until: datetime
    chain: str | None
    """None: every chain keeps away from it."""


class AlertOut(Said):
    """An alert that is open: owed to people, or told and not settled."""

    chain: str | None
    severity: str
    title: str
    created: datetime
    delivered: datetime | None
    tries: int
    last_error: str


class PointOut(Said):
    """How far the chain was at one moment."""

    at: datetime
    step: int
    loss: float | None


class SaveOut(Said):
    """One checkpoint that was seen on disk."""

    path: str
    at: datetime
    step: int | None
    status: str


class ChainDetail(Said):
    """One chain with its history."""

    chain: ChainOut
    attempts: list[AttemptOut]
    decisions: list[DecisionOut]
    excluded: list[NodeOut]
    alerts: list[AlertOut]
    progress: list[PointOut]
    saves: list[SaveOut]


class Granted(Said):
    """A wish that was written down; the next pass of the loop sees to it."""

    chain: str
    said: str


class Health(Said):
    """Whether the daemon lives and sees."""

    ok: bool
    why: str


class Problem(Said):
    """Why a request was not answered."""

    error: str


def chain_out(chain: ChainRecord, now: datetime) -> ChainOut:
    stands = standing(chain, now)
    return ChainOut(
        name=safe(chain.name),
        cluster=safe(chain.cluster),
        mode=chain.mode,
        state=chain.state,
        state_since=chain.state_since,
        desired=chain.desired,
        released=chain.released,
        sentence=safe(chain.sentence),
        wait_until=chain.wait_until,
        step=chain.step,
        saved_step=chain.saved_step,
        target=chain.target,
        steps_per_second=stands.steps_per_second,
        eta_seconds=stands.eta_seconds,
        eta_overall_seconds=stands.eta_overall_seconds,
        at_risk_steps=stands.at_risk_steps,
        at_risk_seconds=stands.at_risk_seconds,
        step_at=stands.step_at,
        tokens=stands.tokens,
        loss=stands.loss,
        phase=safe(stands.phase),
    )


def attempt_out(attempt: Attempt) -> AttemptOut:
    job = attempt.job
    return AttemptOut(
        number=attempt.number,
        job=safe(job.shown_id),
        state=job.state.value,
        submitted=job.attempt.submitted,
        started=job.start,
        ended=attempt.ended or job.end,
        nodes=[safe(node) for node in job.nodes],
        step_before=attempt.step_before,
        step_after=attempt.step_after,
        saved_before=attempt.saved_before,
        saved_after=attempt.saved_after,
        resumed_from=None if attempt.resumed_from is None else safe(attempt.resumed_from),
        verdict=None if attempt.verdict is None else verdict_out(attempt.verdict),
    )


def verdict_out(verdict: Verdict) -> VerdictOut:
    return VerdictOut(
        outcome=verdict.outcome.value,
        cause=verdict.cause.value,
        retry=verdict.retry.value,
        confidence=verdict.confidence,
        sentence=safe(verdict.sentence),
        advice=safe(verdict.advice),
        culprit_nodes=[safe(node) for node in verdict.culprit_nodes],
        evidence=[_line(line) for line in verdict.evidence],
        ruled_out=[f"{reading.cause.value}: {safe(reading.why)}" for reading in verdict.ruled_out],
        weaker=[safe(one) for one in verdict.weaker],
    )


def decision_out(row: tuple[datetime, int | None, Decision, str]) -> DecisionOut:
    at, attempt, decision, sentence = row
    return DecisionOut(at=at, attempt=attempt, decision=decision_kind(decision), sentence=safe(sentence))


def alert_out(notice: Notice) -> AlertOut:
    return AlertOut(
        chain=None if notice.chain is None else safe(notice.chain),
        severity=notice.severity,
        title=safe(notice.title),
        created=notice.created,
        delivered=notice.delivered,
        tries=notice.tries,
        last_error=safe(notice.last_error),
    )


def save_out(save: Save) -> SaveOut:
    return SaveOut(path=safe(save.path), at=save.at, step=save.step, status=save.status.value)


def node_out(excluded: Any) -> NodeOut:
    return NodeOut(
        node=safe(excluded.node),
        why=safe(excluded.why),
        since=excluded.since,
        until=excluded.until,
        chain=None if excluded.chain is None else safe(excluded.chain),
    )


def safe(text: str) -> str:
    """Text from the cluster without control characters and what looks like a credential."""
    return redact(clean(text, 4000))


def _line(line: Line) -> LineOut:
    return LineOut(source=safe(line.source), line=line.line, text=safe(line.text))
