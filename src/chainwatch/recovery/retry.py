"""A person's `retry`, and whether it still waits for its answer."""

from __future__ import annotations

from datetime import datetime

from chainwatch.model.chain import Attempt


def over_before(attempt: Attempt, retried_at: datetime | None) -> bool:
    """The attempt was over when a person said `retry`: it is asked for what comes after it.

    Slurm's times are whole seconds, rounded down: an attempt that was submitted in the very second of the `retry` is the
    answer to it, also where its end seems to lie before.
    """
    if retried_at is None:
        return False
    if attempt.job.attempt.submitted >= retried_at.replace(microsecond=0):
        return False
    return attempt.ended is None or attempt.ended <= retried_at
