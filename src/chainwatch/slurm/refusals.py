"""What Slurm's refusals call for.

The texts are those of `slurm_errno.c` in the releases 20.11 to 26.05, with the reasons that slurmctld puts on a line
before them (`QOSMaxSubmitJobPerUserLimit`). A text is matched as a part, without regard to case. One that the table
does not know is a refusal for a person: site plugins (`job_submit.lua`) write their own.
"""

from __future__ import annotations

import re

from chainwatch.slurm.backend import Refusal

NO_ANSWER = (
    "unable to contact slurm controller",
    "socket timed out",
    "communication connection failure",
    "communication shutdown failure",
    "message send failure",
    "message receive failure",
    "failed to send entire message",
    "zero bytes were transmitted",
    "received zero length message",
    "received message length < 0",
    "insane message length",
    "unexpected message received",
    "header lengths are longer",
    "incompatible versions of client and server",
    "protocol version has changed",
    "i/o stream version number error",
    "protocol authentication error",
    "authentication credential",
    "authentication failure",
    "authentication agent",
    "munge",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection rejected",
    "connection forced closed",
    "broken pipe",
    "no route to host",
    "network is unreachable",
    "transport endpoint is not connected",
    "operation now in progress",
    "can't find an address",
    "process is shutting down",
    "read would block",
    "tls missing",
    "could not establish a configuration source",
    "failed to fetch config",
    "unable to process configuration file",  # of this machine's slurm.conf: nobody was asked
    "problem talking to the database",
    "problem talking to database",
    "can't be reached now",  # -M: slurmdbd has no address of that cluster's controller while it is down
    "unable to connect to database",
    "no partition information",  # a controller that is still starting
)
"""Nobody answered, or the answer was lost: the request may have been carried out."""

_WAIT = (
    "temporarily unable to accept job",
    "resource temporarily unavailable",
    "job queue full",
    "maxjobcount limit reached",
    "unable to create job record",
    "job creation temporarily disabled",
    "rate limit exceeded",
    "try again",
    "retry later",
    "system submissions disabled",
    "requested operation is presently disabled",
    "partition in down state",
    "required partition not available (inactive or drain)",
    "required node not available",
    "requested nodes are busy",
    "node count specification invalid, try later",
    "maintenance reservation",
    "reservation not usable now",
    "reservation is in use",
    "licenses currently unavailable",
    "burst buffer resource limit exceeded",
    "breached requested qos usage threshold",
    "required ports are in use",
    "switch resources currently not available",
    "max powered up nodes reached",
    "standby mode",
    "locked by another sibling",
    "writing script/environment to file",
    "no space left on device",
    "reboot already in progress",
    "prologslurmctld is still running",
    "submitjob",  # QOSMaxSubmitJobPerUserLimit, AssocMaxSubmitJobLimit, …
    "maxsubmit",
)
_POLICY = "violates accounting/qos policy"
_PER_JOB = re.compile(r"(?:assoc|qos)\w*(?:perjob|maxwall|mincpu|mintres|minnode|timelimit)")

_GONE = (
    "invalid job id specified",
    "already completing or completed",
    "job has already finished",
    "job is not running",
)


def unanswered(text: str) -> bool:
    """The text means that nobody answered, so that nothing is known about the request."""
    lower = text.lower()
    return any(part in lower for part in NO_ANSWER)


def gone(text: str) -> bool:
    """The job that the request was about is over or unknown."""
    lower = text.lower()
    return any(part in lower for part in _GONE)


def calls_for(text: str) -> Refusal:
    """What a refusal calls for; `text` is all that the client printed about it."""
    lower = text.lower()
    if any(part in lower for part in _WAIT):
        return Refusal.WAIT
    if _POLICY in lower:
        return Refusal.PERSON if _PER_JOB.search(lower) else Refusal.WAIT
    return Refusal.PERSON
