"""Why a job waits: by itself, or until a person does something.

Words from slurm's job_reasons (slurm_protocol_defs.c, `job_state_reason_string`) of 20.11 to 26.05. squeue writes some
of them with spaces, scontrol with underscores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForAPerson:
    """A pending reason that does not pass by itself."""

    why: str
    do: str = "mend what it waits for, or cancel it and retry the chain"


_SHORTER = "ask for less time (`scontrol update job=ID timelimit=…`, or --time in the script), or for another place"
_LESS = "ask for less, or for another partition, account or QOS"

_PERSON = {
    "DependencyNeverSatisfied": ForAPerson("its dependency can never be satisfied any more"),
    "PartitionTimeLimit": ForAPerson("its time limit is longer than the partition allows", _SHORTER),
    "PartitionNodeLimit": ForAPerson("it asks for more nodes than the partition has or allows", _LESS),
    "PartitionConfig": ForAPerson("the partition cannot give what it asks for", _LESS),
    "PartitionInactive": ForAPerson("the partition is inactive", _LESS),
    "BadConstraints": ForAPerson("no node can satisfy its constraints", _LESS),
    "AccountNotAllowed": ForAPerson("its account may not use the partition or QOS", _LESS),
    "InvalidAccount": ForAPerson("its account is not valid", _LESS),
    "InvalidQOS": ForAPerson("its QOS is not valid", _LESS),
    "QOSNotAllowed": ForAPerson("the QOS is not allowed in this partition", _LESS),
    "JobHeldUser": ForAPerson("it was held by its user", "`scontrol release` lets it go"),
    "JobHeldAdmin": ForAPerson("it was held by an administrator", "ask the site's staff why"),
    "QOSUsageThreshold": ForAPerson("the QOS's usage threshold was breached", _LESS),
    "ReservationDeleted": ForAPerson("its reservation was deleted"),
    "MaxRequeue": ForAPerson("it was requeued too often (max_batch_requeue)"),
    "JobHoldMaxRequeue": ForAPerson("it was requeued too often (max_batch_requeue)"),
    "launch_failed_requeued_held": ForAPerson("it failed to launch and was requeued held"),
    "job_requeued_in_held_state": ForAPerson("it was requeued in held state"),
    "DeadLine": ForAPerson("its deadline cannot be met"),
    "FedJobLock": ForAPerson("its federation lock does not come"),
    "NodeDown": ForAPerson("a node that it needs is down"),
}
_PERSON_PATTERNS = (
    (
        re.compile(r"^(Assoc|QOS)(Grp|Max)\w*(Minutes|RunMins)\w*(Limit)?$"),
        ForAPerson("a budget of computing time is used up", _LESS),
    ),
    (
        re.compile(r"^(Assoc|QOS)MaxWall\w*$"),
        ForAPerson("its time limit is longer than the account or QOS allows", _SHORTER),
    ),
    (re.compile(r"^(Assoc|QOS)Max\w*Per(Job|Node)\w*$"), ForAPerson("it asks for more than one job may have", _LESS)),
    (re.compile(r"^(Assoc|QOS)Min\w*$"), ForAPerson("it asks for less than the account or QOS demands")),
    (re.compile(r"^(Assoc|QOS)Grp(Billing|Wall)\w*$"), ForAPerson("a budget of the account or QOS is used up", _LESS)),
    (
        re.compile(r"^AssocGrp\w*$"),
        ForAPerson(
            "the account's limit on what it uses at once is reached: it waits until others of the account end, and for ever "
            "if it asks for more than the limit by itself",
            _LESS,
        ),
    ),
)
_MAINTENANCE = re.compile(r"(?i)reserved[ _]for[ _]maint|\bmaint(?:enance)?[ _]reservation")
_RUNS_INTO_MAINTENANCE = ForAPerson(
    "with its time limit it would run into a maintenance reservation",
    "it starts after the maintenance by itself; with a shorter time limit it may end before it",
)


def needs_person(reason: str) -> ForAPerson | None:
    """Why this pending reason will not pass by itself, or None where waiting is right (or the word is unknown).

    `ReqNodeNotAvail` (but for maintenance), `Priority`, `Resources`, `BeginTime`, `Dependency`, limits of a QOS or user on
    what runs at once, licences and reservations all pass by themselves.
    """
    if _MAINTENANCE.search(reason):
        return _RUNS_INTO_MAINTENANCE
    word = reason.strip().strip("()").split(",")[0].strip().replace(" ", "_")
    if word in _PERSON:
        return _PERSON[word]
    return next((person for pattern, person in _PERSON_PATTERNS if pattern.match(word)), None)
