"""Whether a job that hangs is ended. Pure: the silence, and what the probes named, are handed in."""

from __future__ import annotations

from datetime import timedelta

from chainwatch.config.models import Hang
from chainwatch.model.chain import EndJob, LeaveAlone
from chainwatch.model.job import Job

TIMES_ALERT = 2
"""No job is ended before it was silent for this many times the threshold of the alert."""
LOOKS = 2
"""Probes that must name the same node, the last of them that late."""


def end_or_leave(
    job: Job, hang: Hang, *, silent: timedelta, limit: timedelta, looks: int, named: tuple[str, ...], why: str
) -> EndJob | LeaveAlone:
    """`named`: nodes on which the last `LOOKS` of `looks` probes of this silence agree, surely; `why`: both, in words."""
    if not hang.end_job:
        return LeaveAlone("hung jobs are told of and left alone (hang.end_job is off)")
    if silent < TIMES_ALERT * limit:
        return LeaveAlone(f"it is ended only when it was silent for {TIMES_ALERT} times the threshold")
    if looks < LOOKS:
        return LeaveAlone("it is ended only when a second look at its processes agrees with the first")
    if not named:
        return LeaveAlone("no look at its processes names a node that is surely to blame")
    signal = None if hang.signal == "none" else hang.signal
    return EndJob(job, f"hang: {why}", signal, hang.grace if signal else timedelta(0), named)
