"""What the running loop says of itself: read by the metrics, the health checks and the status page.

The loop publishes a new, frozen `Pulse` after each pass; readers in other threads take whichever is newest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class PollFacts:
    """One source of one cluster, as it answered lately."""

    cluster: str
    source: str
    """`squeue`, `sacct`, `sinfo`, `scontrol`"""
    last_good: datetime | None = None
    """When it last answered in full."""
    seconds: float | None = None
    """How long the newest question took."""
    error: str = ""
    """Why the newest question got no answer; empty if it did."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """One turn of the loop."""

    at: datetime
    """When the loop turned."""
    started: datetime
    interval: timedelta
    """Time between two polls, as configured."""
    next_turn: datetime | None = None
    """When the loop means to turn again (it backs off when Slurm is slow)."""
    polls: tuple[PollFacts, ...] = ()
    observing: bool = False
    """The whole daemon only observes (`--observe`)."""
    paused_by_site: str = ""
    """Why the site's PAUSE file stops every action; empty if it does not."""

    def alive(self, now: datetime) -> bool:
        """The loop turns: it is at most two intervals and a slow pass late."""
        due = self.next_turn or self.at + self.interval
        return now - due < max(2 * self.interval, timedelta(minutes=5))

    def blind(self, now: datetime) -> str:
        """Why nothing can be concluded about the queue of some cluster now; empty if all answer.

        A poll that failed once is no blindness: several in a row are.
        """
        patience = max(5 * self.interval, timedelta(minutes=10))
        queues = [poll for poll in self.polls if poll.source == "squeue"]
        if not queues:
            return "no cluster was asked yet"
        for poll in queues:
            since = poll.last_good or self.started
            if now - since >= patience or (poll.last_good is None and poll.error):
                when = f"for {_minutes(now - since)}" if poll.last_good else "yet"
                return f"the queue of {poll.cluster} has not answered {when}{f': {poll.error}' if poll.error else ''}"
        return ""


class Board:
    """Where the loop puts its newest pulse. One writer, any number of readers in any thread."""

    def __init__(self) -> None:
        self._pulse: Pulse | None = None

    def publish(self, pulse: Pulse) -> None:
        self._pulse = pulse  # one reference: readers see the old one or the new one

    @property
    def pulse(self) -> Pulse | None:
        """The newest pulse; None before the first turn."""
        return self._pulse


def _minutes(span: timedelta) -> str:
    minutes = int(span.total_seconds() // 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
