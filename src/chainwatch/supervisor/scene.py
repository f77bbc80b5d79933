"""What one tick knows of one chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from chainwatch.actions.tag import find
from chainwatch.diagnosis.cohorts import Cohort, Failure
from chainwatch.diagnosis.hang import Watch
from chainwatch.diagnosis.incidents import Held
from chainwatch.model.job import Job, Snapshot
from chainwatch.store.records import ChainRecord


@dataclass(frozen=True, slots=True)
class Scene:
    """What this tick knows of one chain."""

    snapshot: Snapshot
    jobs: tuple[Job, ...]
    """Jobs of the queue that belong to the chain, oldest submission first."""
    missed: tuple[Job, ...] = ()
    """Tasks of its array that came and went unseen, as accounting has them; all of them have ended."""
    incident: Held | None = None
    """The incident that the chain's last end belongs to."""
    cohorts: Mapping[Failure, Cohort] = field(default_factory=dict)
    """Chains that failed alike, whichever they are."""
    siblings: int = 1
    """How many chains that may fail, or have, share this one's template or script, itself counted."""
    chains: int = 1
    """How many chains this daemon looks after that are not quiet."""
    watches: Mapping[str, Watch] = field(default_factory=dict)
    """The watches of all running chains, as they were before this tick: many that fall silent at once are no hangs."""
    remembers: timedelta | None = None
    """Without accounting: how long the controller remembers an end (MinJobAge), and nobody else."""

    @property
    def accounting(self) -> bool:
        """False: the site has no accounting, so waiting for it is vain."""
        return self.remembers is None


def ours(job: Job, record: ChainRecord) -> bool:
    """Our tag names this chain, or the array of which this chain is one task."""
    tag = find(job.comment, job.submit_line)
    return tag is not None and record.name in {tag.chain, f"{tag.chain}.{job.array_task}"}


__all__ = ["Scene", "ours"]
