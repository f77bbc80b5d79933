"""Slurm's state words, long and short, as `JobState`.

Source of the table: `job_state_string`, `job_state_string_compact` and `job_state_string_complete` of the releases
20.11 to 26.05. squeue's text shows *only the flag* where one is set (`COMPLETING` hides the base state); scontrol's
JSON and newer texts list base and flags (`RUNNING,COMPLETING`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chainwatch.model.job import JobState

_SHORT = {
    "PD": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "CD": JobState.COMPLETED,
    "CA": JobState.CANCELLED,
    "F": JobState.FAILED,
    "TO": JobState.TIMEOUT,
    "NF": JobState.NODE_FAIL,
    "PR": JobState.PREEMPTED,
    "BF": JobState.BOOT_FAIL,
    "DL": JobState.DEADLINE,
    "OOM": JobState.OUT_OF_MEMORY,
    "OO": JobState.OUT_OF_MEMORY,  # cut to two characters by squeue's default width
    "CG": JobState.COMPLETING,
    "SO": JobState.STAGE_OUT,
    "CF": JobState.CONFIGURING,
    "RS": JobState.RESIZING,
    "RQ": JobState.REQUEUED,
    "RF": JobState.REQUEUE_FED,
    "RH": JobState.REQUEUE_HOLD,
    "SE": JobState.SPECIAL_EXIT,
    "ST": JobState.STOPPED,
    "RV": JobState.REVOKED,
    "RD": JobState.RESV_DEL_HOLD,
    "SI": JobState.SIGNALING,
    "RC": JobState.RECONFIG_FAIL,
    "LF": JobState.LAUNCH_FAILED,
    "PU": JobState.POWER_UP_NODE,
    "UD": JobState.UPDATE_DB,
    "EX": JobState.EXPEDITING,
}
_LONG = {state.value: state for state in JobState if state is not JobState.UNKNOWN}
_WORDS = {**_LONG, **_SHORT, "COMPLETE": JobState.COMPLETED, "OOM_KILLED": JobState.OUT_OF_MEMORY}

_LIVE_FLAGS = (
    JobState.COMPLETING,
    JobState.STAGE_OUT,
    JobState.CONFIGURING,
    JobState.POWER_UP_NODE,
    JobState.RESIZING,
    JobState.REQUEUED,
    JobState.REQUEUE_FED,
    JobState.REQUEUE_HOLD,
    JobState.SPECIAL_EXIT,
    JobState.STOPPED,
    JobState.RESV_DEL_HOLD,
    JobState.SIGNALING,
    JobState.EXPEDITING,
)
"""Flags that say more than the base state, in the order in which `job_state_string` shows them."""

_CANCELLED_BY = re.compile(r"^CANCELLED\+? by (-?\d+)")


class State(NamedTuple):
    """What a state text says."""

    state: JobState
    cancelled_by: int | None
    """Uid, where the text names it (`CANCELLED by 1001`)."""


def parse_state(text: str) -> State:
    """A State column of squeue, sacct or scontrol as words.

    Accepts long and short words, `CANCELLED by UID` (20.11 printed uids above 2^31 as negative numbers), columns cut
    with `+`, and a list of base state and flags. A word that this table does not know is `UNKNOWN`: keep watching.
    """
    text = text.strip()
    by = _CANCELLED_BY.match(text)
    if by:
        return State(JobState.CANCELLED, int(by[1]) % 2**32)
    words = [part.strip() for part in text.split(",")] if "," in text else text.split()[:1]
    states = [_word(word) for word in words]
    if not states:
        return State(JobState.UNKNOWN, None)
    if JobState.REVOKED in states:
        return State(JobState.REVOKED, None)
    flag = next((f for f in _LIVE_FLAGS if f in states[1:]), None)
    return State(flag or states[0], None)


def _word(word: str) -> JobState:
    word = word.strip().upper()
    known = _WORDS.get(word)
    if known is not None:
        return known
    if word.endswith("+") and len(word) > 2:
        begun = {state for long, state in _LONG.items() if long.startswith(word[:-1])}
        if len(begun) == 1:
            return begun.pop()
    return JobState.UNKNOWN
