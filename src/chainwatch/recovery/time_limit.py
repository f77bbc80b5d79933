"""A time limit that fits what is left to do: a shorter job fits into more gaps of the schedule. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from chainwatch.model.chain import Attempt
from chainwatch.recovery.worth import pace

_SLOWER = 1.25
"""Other nodes, fuller storage, evaluation: a job may be a quarter slower than the best one was."""


def fitted(
    attempts: Sequence[Attempt], saved: int | None, target: int | None, margin: timedelta | None
) -> timedelta | None:
    """The limit for a job that computes from step `saved` to `target`, in whole minutes.

    None: `margin` is not configured, nothing is measured yet, or the limit of the last job is no longer than that. A limit
    is only ever made shorter: the one that the user chose is what the site allows.
    """
    per_step = pace(attempts)
    limit = attempts[-1].job.time_limit if attempts else None
    if margin is None or target is None or per_step is None or limit is None:
        return None
    left = max(target - (saved or 0), 0)
    needed = timedelta(minutes=math.ceil((per_step * left * _SLOWER + margin) / timedelta(minutes=1)))
    return needed if needed < limit else None
