"""Job dependencies, as slurmctld evaluates them (job_scheduler.c, test_job_dependency).

- A predecessor that the controller has forgotten counts as met, whatever the type: `afternotok` on a purged, successful
  job starts at once.
- `afterany`, `afterok` and `afternotok` wait until COMPLETING is over; a job that is being requeued is pending, so they
  wait for its next end.
- `singleton` looks at jobs of the same user and name: running or suspended ones, and pending ones with a lower id. It
  does *not* wait for COMPLETING.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum

from chainwatch.model.job import JobState
from chainwatch.simulation.jobs import SimJob

Lookup = Callable[[int], list[SimJob]]
"""All records of a job id (of an array: of every task); empty where the controller remembers none."""


class Met(Enum):
    """What a dependency says now."""

    YES = "yes"
    NOT_YET = "not yet"
    NEVER = "never"


def remaining(job: SimJob, lookup: Lookup, others: Iterable[SimJob]) -> tuple[Met, str]:
    """Whether `job` may start, and the parts of its dependency that are not met yet."""
    text = job.dependency
    if not text:
        return Met.YES, ""
    any_of = "?" in text
    parts = text.split("?" if any_of else ",")
    verdicts = [(part, _one(part, job, lookup, others)) for part in parts]
    left = [part for part, met in verdicts if met is not Met.YES]
    never = [part for part, met in verdicts if met is Met.NEVER]
    if any_of:
        if len(left) < len(parts):
            return Met.YES, ""
        return (Met.NEVER if len(never) == len(parts) else Met.NOT_YET), text
    if never:
        return Met.NEVER, ",".join(left)
    return (Met.NOT_YET if left else Met.YES), ",".join(left)


def kinds_of_lost(text: str, lookup: Lookup) -> set[str]:
    """The kinds of those parts of a dependency that name a job which the controller does not know."""
    return {part.partition(":")[0] for part in re.split("[,?]", text) for i in _ids(part) if not lookup(i)}


def _ids(part: str) -> list[int]:
    return [int(re.split(r"[_+]", i)[0]) for i in part.split(":")[1:] if i]


def _one(part: str, job: SimJob, lookup: Lookup, others: Iterable[SimJob]) -> Met:
    kind = part.partition(":")[0]
    if kind == "singleton":
        busy = any(
            o is not job
            and o.request.user == job.request.user
            and o.request.name == job.request.name
            and (o.state in _RUNNING or (o.state is JobState.PENDING and o.job_id < job.job_id))
            for o in others
        )
        return Met.NOT_YET if busy else Met.YES
    mets = [_after(kind, record) for i in _ids(part) for record in lookup(i)]
    if Met.NEVER in mets:
        return Met.NEVER
    return Met.NOT_YET if Met.NOT_YET in mets else Met.YES


_RUNNING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.CONFIGURING})


def _after(kind: str, predecessor: SimJob) -> Met:
    if kind == "after":
        return Met.NOT_YET if predecessor.state is JobState.PENDING else Met.YES
    if not predecessor.ended:
        return Met.NOT_YET
    good = predecessor.state is JobState.COMPLETED
    if kind == "afterany" or (kind == "afterok") == good:
        return Met.YES
    return Met.NEVER
