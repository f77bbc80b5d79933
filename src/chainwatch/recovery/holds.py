"""Which holds chainwatch lifts: Slurm's own after a failed launch, and one that it made itself. Nobody else's, ever.

Seen on 22.05: a prolog that fails drains its node ("Prolog error") and brings the job back at priority 0 with the reason
"launch failed requeued held" (scontrol writes underscores); without a release it waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from chainwatch.model.chain import Release
from chainwatch.model.job import Job

MOST_RELEASES = 3
"""Releases of one job after which a person must look: its nodes, or what it asks of them, do not work."""
PAUSE = timedelta(minutes=5)
"""Between two tries to lift a hold: the first may have been refused, or got no answer."""
MOST_TRIES = 6
"""Tries, refused ones included."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A pending job, and what is known of its hold."""

    job: Job
    ours: bool
    """We submitted it."""
    held_by_us: bool
    """The hold is our own, and was not lifted since."""
    releases: int = 0
    """How often this job was released."""
    tries: int = 0
    """How often that was tried, over its requeues."""
    tried: datetime | None = None
    """When last."""
    refused: bool = False
    """The last try was in vain."""


def launch_failed(reason: str) -> bool:
    """Slurm itself holds the job, since its launch failed."""
    return "launch failed requeued held" in reason.replace("_", " ").lower()


def to_release(held: HeldJob, now: datetime, *, launch_failures: bool) -> Release | None:
    """Lift this hold, or None: it stays, and a person is told in time. For a chain that people want to run."""
    job = held.job
    if held.tries >= MOST_TRIES or (held.tried is not None and held.refused and now - held.tried < PAUSE):
        return None
    if launch_failed(job.reason):
        if held.ours and launch_failures and held.releases < MOST_RELEASES:
            return Release(
                job, f"its launch failed and Slurm holds it; released ({held.releases + 1} of {MOST_RELEASES})"
            )
        return None
    if held.held_by_us and job.reason == "JobHeldUser":
        return Release(job, "chainwatch held it, and the pause is over")
    return None
