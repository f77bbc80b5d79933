"""Jobs that leave their nodes drained. Slurm drains a node on which it cannot end a job's processes (`Kill task failed`).

The node is not at fault, so nobody keeps away from it; but the next job would have fresh nodes drained just so.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from chainwatch.model.chain import History, Stop
from chainwatch.model.job import Job, Node
from chainwatch.recovery.retry import over_before

MOST_JOBS = 2
"""So many jobs of one chain that left drained nodes behind are no chance any more: another would drain more."""


def left_drained(job: Job, nodes: Iterable[Node]) -> tuple[str, ...]:
    """Those of the job's nodes that Slurm drained since it began because its processes did not die."""
    return tuple(
        node.name
        for node in nodes
        if node.name in job.nodes
        and node.reason.lower().startswith("kill task failed")
        and (node.reason_at is None or job.start is None or node.reason_at >= job.start)
    )


def stop(history: History, now: datetime, within: timedelta) -> Stop | None:
    """A decision to stop, where jobs of the last `within` drained nodes again and again."""
    recent = [a for a in history.attempts if a.drained and now - (a.ended or now) <= within]
    counted = [a for a in recent if not over_before(a, history.retried_at)]
    if len(counted) < MOST_JOBS:
        return None
    names = ", ".join(dict.fromkeys(node for a in counted for node in a.drained))
    return Stop(
        f"{len(counted)} jobs of this chain left nodes drained behind them ({names}: Kill task failed): its processes do "
        "not die when Slurm ends them, and the next job would have more nodes drained",
        "see what they hang in (a dead file system, a driver) or why they ignore SIGTERM, have the nodes resumed, then "
        f"`chainwatch retry {history.chain}`.",
    )
