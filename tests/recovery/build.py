"""A few words to write a chain's past in: `ended(PREEMPTION, saved=20)`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, History
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from chainwatch.recovery.decide import Situation

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)

_OUTCOMES = {
    Cause.PREEMPTION: Outcome.PREEMPTED,
    Cause.TIME_LIMIT: Outcome.TIMED_OUT,
    Cause.HARDWARE_NODE: Outcome.NODE_FAILED,
    Cause.COMPLETED: Outcome.ENDED,
    Cause.CANCELLED_BY_USER: Outcome.CANCELLED,
    Cause.CANCELLED_BY_OTHER: Outcome.CANCELLED,
}
_NEVER = {Cause.USER_CODE, Cause.USER_CONFIG, Cause.ENVIRONMENT, Cause.NUMERIC, Cause.CHECKPOINT_CORRUPT, Cause.OOM_GPU}
_LATER = {Cause.STORAGE, Cause.TRANSIENT_SERVICE}


def ended(
    cause: Cause,
    *,
    saved: int | None = None,
    before: int | None = None,
    minutes: float = 60,
    ago: float = 0,
    resumed: str | None = None,
    fingerprint: str | None = None,
    nodes: tuple[str, ...] = (),
    step: int | None = None,
) -> Attempt:
    """An attempt that ended `ago` minutes before NOW after `minutes`, and left step `saved` where `before` was."""
    end = NOW - timedelta(minutes=ago)
    start = end - timedelta(minutes=minutes)
    retry = Retry.NO if cause in _NEVER else Retry.WAIT if cause in _LATER else Retry.YES
    verdict = Verdict(
        _OUTCOMES.get(cause, Outcome.FAILED),
        cause,
        retry,
        0.9,
        f"ended: {cause}",
        culprit_nodes=nodes,
        fingerprint=fingerprint if fingerprint is not None else str(cause),
    )
    job = Job(AttemptId("c", 1, start), "1", JobState.FAILED, Source.ACCOUNTING, start=start, end=end)
    return Attempt(
        job=job, number=1, ours=True, verdict=verdict, ended=end, saved_before=before,
        saved_after=before if saved is None else saved, resumed_from=resumed, step_after=step,
    )  # fmt: skip


def checkpoint(step: int, status: Status = Status.INTACT) -> Checkpoint:
    return Checkpoint(f"/run/global_step{step}", step, "deepspeed", status, f"it is {status}")


def report(*checkpoints: Checkpoint) -> RunReport:
    intact = [c for c in checkpoints if c.intact]
    return RunReport("/run", "deepspeed", checkpoints, intact[-1] if intact else None)


def situation(*attempts: Attempt, found: RunReport | str | None = "one", **settings: object) -> Situation:
    """A chain with this past; by default one intact checkpoint at step 10 lies there."""
    numbered = tuple(replace(a, number=i + 1) for i, a in enumerate(attempts))
    chain = Chain.model_validate({"batch": "/run/x.sh", "checkpoints": "/run", **settings})
    there = report(checkpoint(10)) if isinstance(found, str) else found
    return Situation(chain, History("night", numbered), there, NOW)
