"""Whether an attempt was over when a person said `retry`, in spite of Slurm's whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.model.chain import Attempt
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.recovery import over_before

RETRY = datetime(2026, 3, 4, 5, 6, 7, 900_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WHOLE = RETRY.replace(microsecond=0)


@pytest.mark.parametrize(
    ("submitted", "ended", "over"),
    [
        (WHOLE - 60 * SECOND, WHOLE - SECOND, True),
        (WHOLE - 60 * SECOND, WHOLE, True),
        (WHOLE - 60 * SECOND, WHOLE + SECOND, False),
        (WHOLE, WHOLE, False),
        (WHOLE, WHOLE + SECOND, False),
        (WHOLE + SECOND, WHOLE + SECOND, False),
        (WHOLE - 60 * SECOND, None, True),
    ],
)
def test_a_job_of_the_same_second_is_the_answer_to_the_retry(
    submitted: datetime, ended: datetime | None, over: bool
) -> None:
    job = Job(AttemptId("alpha", 7, submitted), "7", JobState.FAILED, Source.QUEUE)
    assert over_before(Attempt(job, 1, ours=True, ended=ended), RETRY) is over


def test_without_a_retry_nothing_was_over_before_it() -> None:
    job = Job(AttemptId("alpha", 7, WHOLE), "7", JobState.FAILED, Source.QUEUE)
    assert not over_before(Attempt(job, 1, ours=True), None)
