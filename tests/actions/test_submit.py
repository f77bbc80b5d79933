"""Exactly once: what is written before sbatch, what after, and what an open intent may conclude from a snapshot."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.actions import submit
from chainwatch.actions.audit import Audit
from chainwatch.actions.submit import Found, RefusedBySlurm, StillOpen, Submitted, SurelyAbsent, Uncertain, look_up
from chainwatch.actions.tag import Tag
from chainwatch.model.job import Job, JobState, Snapshot, Source
from chainwatch.slurm.backend import Refusal, Refused, Submission, SubmitUncertain
from chainwatch.store import IntentOpen, Store
from chainwatch.store.records import Intent, IntentKind, IntentStatus
from tests.store.build import MINUTE, NOW, job

TOKEN = "0123456789abcdef"
TAG = Tag("0123abcd", "llama", TOKEN)
SETTLE = timedelta(seconds=90)
BOTH = frozenset({Source.QUEUE, Source.ACCOUNTING})
CALL = Submission("/run/train.sh", ("--x",), (f"--comment={TAG}",), "/run", (("HOME", "/"), ("TOKEN", "secret")), 0o027)


def intent(**changes: Any) -> Intent:
    given: dict[str, Any] = {"created": NOW, "payload": {}, "tried_at": NOW, **changes}
    return Intent(id=1, chain="llama", kind=IntentKind.SUBMIT, token=TOKEN, **given)


def seen(*, jobs: tuple[Job, ...] = (), records: tuple[Job, ...] = (), answered: frozenset[Source] = BOTH) -> Snapshot:
    return Snapshot("alpha", NOW, jobs=jobs, records=records, answered=answered, failed={})


LATER = NOW + 2 * MINUTE


@pytest.mark.parametrize(
    "snapshot",
    [
        seen(jobs=(job(7, comment=f"mine {TAG}"),)),
        seen(jobs=(job(7, comment=str(TAG)),), answered=frozenset({Source.QUEUE})),
        seen(records=(job(7, submit_line=f"sbatch --comment={TAG} x.sh", state=JobState.COMPLETED),)),
        seen(records=(job(7, comment=str(TAG)),), answered=frozenset({Source.ACCOUNTING})),
    ],
)
def test_a_token_that_anybody_shows_is_found_at_once(snapshot: Snapshot) -> None:
    answer = look_up(intent(), snapshot, NOW, SETTLE)
    assert isinstance(answer, Found)
    assert answer.job.job_id == 7


def test_of_a_requeued_job_the_newest_attempt_is_found() -> None:
    old, new = job(7, comment=str(TAG)), job(7, NOW + MINUTE, comment=str(TAG))
    answer = look_up(intent(), seen(jobs=(new,), records=(old,)), LATER, SETTLE)
    assert answer == Found(new)


@pytest.mark.parametrize(
    ("answered", "rounds", "after", "expected"),
    [
        (frozenset(), 5, 10 * MINUTE, "open"),
        (frozenset({Source.QUEUE}), 5, 10 * MINUTE, "open"),
        (frozenset({Source.ACCOUNTING}), 5, 10 * MINUTE, "open"),
        (BOTH, 5, timedelta(seconds=89), "open"),
        (BOTH, 0, SETTLE, "counts"),
        (BOTH, 1, SETTLE, "absent"),
    ],
)
def test_absence_needs_both_sources_twice_and_time(
    answered: frozenset[Source], rounds: int, after: timedelta, expected: str
) -> None:
    other = job(8, comment="chainwatch=0123abcd/llama/ffffffffffffffff")
    answer = look_up(intent(absent_rounds=rounds), seen(jobs=(other,), answered=answered), NOW + after, SETTLE)
    if expected == "absent":
        assert isinstance(answer, SurelyAbsent)
    else:
        assert isinstance(answer, StillOpen)
        assert answer.counts is (expected == "counts")


@pytest.mark.parametrize(
    ("rounds", "after", "expected"),
    [
        (5, timedelta(seconds=89), "open"),
        (0, SETTLE, "counts"),
        (1, SETTLE, "absent"),
        (1, timedelta(seconds=299), "absent"),
        (1, timedelta(seconds=300), "lost"),
    ],
)
def test_without_accounting_absence_is_proven_only_while_the_controller_would_remember_the_job(
    rounds: int, after: timedelta, expected: str
) -> None:
    snapshot = seen(answered=frozenset({Source.QUEUE}))
    answer = look_up(intent(absent_rounds=rounds), snapshot, NOW + after, SETTLE, timedelta(seconds=300))
    if expected == "absent":
        assert isinstance(answer, SurelyAbsent)
    else:
        assert isinstance(answer, StillOpen)
        assert (answer.counts, answer.lost) == (expected == "counts", expected == "lost")


def test_without_accounting_a_silent_queue_proves_nothing_either() -> None:
    answer = look_up(intent(absent_rounds=5), seen(answered=frozenset()), LATER, SETTLE, timedelta(seconds=300))
    assert answer == StillOpen("squeue did not answer: not asked")


class Sbatch:
    """A backend that answers one submission, and looks at the store while it is asked."""

    name = "alpha"

    def __init__(self, store: Store, answer: int | BaseException) -> None:
        self.store, self.answer = store, answer
        self.calls: list[Submission] = []

    def submit(self, submission: Submission) -> int:
        (opened,) = self.store.open_intents("llama")
        assert opened.tried_at is not None, "written down before the effect"
        self.calls.append(submission)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def carry_out(store: Store, tmp_path: Path, answer: int | BaseException) -> tuple[submit.Outcome, Sbatch, list[int]]:
    told: list[int] = []
    backend = Sbatch(store, answer)
    opened = submit.begin(store, None, "llama", TOKEN, CALL, {"resume": "/run/a"}, NOW)
    outcome = submit.carry_out(
        store, None, Audit(tmp_path), backend, opened, NOW, lambda intent, job_id: told.append(job_id)  # type: ignore[arg-type]
    )  # fmt: skip
    return outcome, backend, told


def test_an_accepted_job_closes_the_intent_and_is_told_in_the_same_commit(store: Store, tmp_path: Path) -> None:
    outcome, backend, told = carry_out(store, tmp_path, 7)
    assert outcome == Submitted(7)
    assert backend.calls == [CALL]
    assert told == [7]
    (closed,) = store.intents("llama")
    assert (closed.status, closed.job_id, closed.payload["resume"]) == (IntentStatus.DONE, 7, "/run/a")


def test_a_closed_intent_always_has_its_consequences_written(store: Store, tmp_path: Path) -> None:
    """The kind: a job id that was recorded in one commit, and what follows from it in the next."""

    def dies(intent: Intent, job_id: int) -> None:
        raise KeyboardInterrupt

    opened = submit.begin(store, None, "llama", TOKEN, CALL, {}, NOW)
    with pytest.raises(KeyboardInterrupt):
        submit.carry_out(store, None, Audit(tmp_path), Sbatch(store, 7), opened, NOW, dies)  # type: ignore[arg-type]
    (still_open,) = store.open_intents("llama")
    assert still_open.tried_at is not None


def test_a_refusal_closes_the_intent_and_says_whom_it_calls_for(store: Store, tmp_path: Path) -> None:
    outcome, _, told = carry_out(store, tmp_path, Refused("no such QOS", Refusal.PERSON))
    assert outcome == RefusedBySlurm("no such QOS", Refusal.PERSON)
    assert [i.status for i in store.intents("llama")] == [IntentStatus.REFUSED]
    assert told == []


def test_a_time_out_is_no_failure_and_bars_the_next_submission(store: Store, tmp_path: Path) -> None:
    outcome, _, _ = carry_out(store, tmp_path, SubmitUncertain("timed out"))
    assert isinstance(outcome, Uncertain)
    with pytest.raises(IntentOpen):
        submit.begin(store, None, "llama", "f" * 16, CALL, {}, NOW)


def test_the_audit_comes_before_the_effect_and_names_no_values_of_the_environment(store: Store, tmp_path: Path) -> None:
    carry_out(store, tmp_path, SubmitUncertain("timed out"))
    text = (tmp_path / "audit.log").read_text()
    (line,) = [json.loads(line) for line in text.splitlines()]
    assert (line["effect"], line["token"], line["script"]) == ("sbatch", TOKEN, "/run/train.sh")
    assert line["environment_names"] == ["HOME", "TOKEN"]
    assert "secret" not in text
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_audited_is_not_done(store: Store, tmp_path: Path) -> None:
    backend = Sbatch(store, 7)
    opened = submit.begin(store, None, "llama", TOKEN, CALL, {}, NOW)
    with pytest.raises(OSError):
        submit.carry_out(store, None, Audit(tmp_path / "gone"), backend, opened, NOW, lambda i, j: None)  # type: ignore[arg-type]
    assert backend.calls == []
