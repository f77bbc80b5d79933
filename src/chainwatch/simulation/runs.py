"""What really happened, which no source of Slurm tells in full: the runs that invariants are judged by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chainwatch.model.job import JobState


@dataclass(slots=True, eq=False)
class Run:
    """The truth about one attempt: what a person with a camera in every node would have seen. Epoch seconds."""

    job_id: int
    submitted: float
    name: str
    script: str
    nodes: tuple[str, ...]
    started: float
    token: str
    """The job's comment."""
    restarts: int = 0
    """How often Slurm had requeued the job before."""
    stopped: float | None = None
    """When the controller took it for ended; None while it has not."""
    released: float | None = None
    """When its nodes were free again."""
    silent: float | None = None
    """When its last process was dead. After a node's death that is later than `released`."""
    state: JobState = JobState.RUNNING
    """How Slurm recorded its end."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What its program tells: `training` holds the `Trainer`."""

    def holds_nodes_at(self, time: float) -> bool:
        """Slurm ran it at that moment (RUNNING or COMPLETING)."""
        return self.started <= time and (self.released is None or time < self.released)

    def writes_at(self, time: float) -> bool:
        """Its processes were alive at that moment."""
        return self.started <= time and (self.silent is None or time < self.silent)
