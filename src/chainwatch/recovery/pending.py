"""Why a job waits: by itself, or until a person does something.

Words from slurm's job_reasons (slurm_protocol_defs.c, `job_state_reason_string`) of 20.11 to 26.05. squeue writes some
of them with spaces, scontrol with underscores.
"""

from __future__ import annotations

import re

_PERSON = {
    "DependencyNeverSatisfied": "its dependency can never be satisfied any more",
    "PartitionTimeLimit": "its time limit is longer than the partition allows",
    "PartitionNodeLimit": "it asks for more nodes than the partition has or allows",
    "PartitionConfig": "the partition cannot give what it asks for",
    "PartitionInactive": "the partition is inactive",
    "BadConstraints": "no node can satisfy its constraints",
    "AccountNotAllowed": "its account may not use the partition or QOS",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "QOSNotAllowed": "the QOS is not allowed in this partition",
    "JobHeldUser": "it was held by its user",
    "JobHeldAdmin": "it was held by an administrator",
    "QOSUsageThreshold": "the QOS's usage threshold was breached",
    "ReservationDeleted": "its reservation was deleted",
    "MaxRequeue": "it was requeued too often (max_batch_requeue)",
    "launch_failed_requeued_held": "it failed to launch and was requeued held",
    "job_requeued_in_held_state": "it was requeued in held state",
    "DeadLine": "its deadline cannot be met",
    "FedJobLock": "its federation lock does not come",
    "NodeDown": "a node that it needs is down",
    "JobHoldMaxRequeue": "it was requeued too often (max_batch_requeue)",
}
_PERSON_PATTERNS = (
    (re.compile(r"^(Assoc|QOS)(Grp|Max)\w*(Minutes|RunMins)\w*(Limit)?$"), "a budget of computing time is used up"),
    (re.compile(r"^(Assoc|QOS)MaxWall\w*$"), "its time limit is longer than the account or QOS allows"),
    (re.compile(r"^(Assoc|QOS)Max\w*Per(Job|Node)\w*$"), "it asks for more than one job may have"),
    (re.compile(r"^(Assoc|QOS)Min\w*$"), "it asks for less than the account or QOS demands"),
    (re.compile(r"^(Assoc|QOS)Grp(Billing|Wall)\w*$"), "a budget of the account or QOS is used up"),
)


def needs_person(reason: str) -> str | None:
    """Why this pending reason will not pass by itself, or None where waiting is right (or the word is unknown).

    `ReqNodeNotAvail`, `Priority`, `Resources`, `BeginTime`, `Dependency`, group limits on what runs at once, licences
    and reservations all pass by themselves.
    """
    word = reason.strip().strip("()").split(",")[0].strip().replace(" ", "_")
    if word in _PERSON:
        return _PERSON[word]
    for pattern, why in _PERSON_PATTERNS:
        if pattern.match(word):
            return why
    return None
