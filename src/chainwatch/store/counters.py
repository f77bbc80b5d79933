"""The counters that outlive the daemon: names, labels and meaning, in one place.

`count(store, Counted.POLLS, cluster=…, source=…)` raises one; the metrics read them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol


class Counted(Enum):
    """Each member: name, labels, help. The metric is `chainwatch_NAME_total`."""

    ATTEMPTS_ENDED = ("attempts_ended", ("chain", "outcome", "cause"), "Attempts that ended, by outcome and cause.")
    SUBMISSIONS = (
        "submissions",
        ("chain", "kind"),
        "Jobs of the chain by how they came: first, recovery, standby, requeue, other.",
    )
    LOST_WORK = ("lost_work_seconds", ("chain",), "Seconds of training between the last intact checkpoint and the end.")
    QUEUE_WAIT = ("queue_wait_seconds", ("chain",), "Seconds that jobs of the chain were pending.")
    DOWNTIME = (
        "downtime_seconds",
        ("chain",),
        "Seconds without a live job while the chain was neither done nor paused.",
    )
    COMMANDS = ("commands", ("command",), "Commands by which a person asked for something: pause, retry, stop …")
    STEP_ERRORS = ("step_errors", ("chain",), "Turns in which chainwatch could not look after the chain.")
    HANGS = ("hangs", ("chain",), "Hangs that were seen.")
    DECISIONS = ("decisions", ("decision",), "Decisions, by kind.")
    REFUSALS = ("refusals", ("calls_for",), "Submissions that Slurm refused: wait passes, person does not.")
    CHECKS = ("checkpoint_checks", ("status",), "Checkpoints that were judged, by result.")
    CHECK_SECONDS = ("checkpoint_check_seconds", (), "Seconds spent on judging checkpoints.")
    POLLS = ("polls", ("cluster", "source"), "Questions to Slurm.")
    POLL_ERRORS = ("poll_errors", ("cluster", "source"), "Questions to Slurm that got no answer.")
    POLL_SECONDS = ("poll_seconds", ("cluster", "source"), "Seconds spent on questions to Slurm.")
    ALERTS_TOLD = ("alerts_told", ("channel",), "Messages that a channel took.")
    ALERT_FAILURES = ("alert_failures", ("channel",), "Messages that a channel did not take.")

    def __init__(self, word: str, labels: tuple[str, ...], meaning: str) -> None:
        self.word, self.labels, self.meaning = word, labels, meaning

    @property
    def metric(self) -> str:
        return f"chainwatch_{self.word}_total"


class _Bumps(Protocol):
    def bump(self, name: str, labels: Mapping[str, str], by: float = 1) -> None: ...


def count(store: _Bumps, what: Counted, by: float = 1, **labels: str) -> None:
    """Raise a counter. Exactly its labels must be given: a wrong one is a bug, found by the first test that counts."""
    if set(labels) != set(what.labels):
        raise ValueError(f"{what.word} is counted by {what.labels}, not by {tuple(labels)}")
    if by > 0:
        store.bump(what.word, labels, by)
