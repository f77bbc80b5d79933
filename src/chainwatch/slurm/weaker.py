"""What a release, a backend or a site gives less of, and what that means for a verdict.

Each was measured on a real cluster; `make test-matrix` measures them again on every release that it runs.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Weakness(StrEnum):
    """One thing that is known less well than it could be; the value is the sentence for people."""

    GRACE_HIDES_PREEMPTION = (
        "a job whose step ends within its preemption grace is recorded as FAILED or COMPLETED: only the preemption "
        "time, seen while it still runs, tells"
    )
    NO_RESTARTS = "accounting has neither restart count nor failed node: attempts are told apart by their submit times"
    CODES_CUT = "accounting takes 128 off exit codes: 137 shows as 9"
    ASKS_BY_TOOLS = (
        "the library cuts exit codes and knows one attempt of a requeued id: ends, accounting, scripts and every action "
        "go through the command line tools"
    )
    NO_ACCOUNTING = (
        "an end is known only while the controller remembers the job (MinJobAge), without its steps and without earlier "
        "attempts of a requeued id; later only the end record of `chainwatch exec` tells"
    )


def of_release(version: str) -> tuple[Weakness, ...]:
    """What this release of Slurm gives less of than the newest one tested. `version` is `22.05.8`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    found = []
    if numbers < [24, 11]:
        found += [Weakness.GRACE_HIDES_PREEMPTION, Weakness.NO_RESTARTS]
    if numbers < [25, 5]:
        found += [Weakness.CODES_CUT]
    return tuple(found)
