"""A store in memory with one of everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.model.chain import ChainState, ExcludedNode, Mode
from chainwatch.model.pulse import PollFacts, Pulse
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Notice, Origin

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def chain(name: str, state: ChainState = ChainState.RUNNING, **more: object) -> ChainRecord:
    record = ChainRecord(name, "c1", Origin.CONFIG, Mode.ACT, {}, NOW - timedelta(days=2), state=state)
    record = replace(record, state_since=NOW - timedelta(hours=3), sentence="the job trains")
    return replace(record, **more)  # type: ignore[arg-type]


FACTS = {
    "rate": 2.0, "loss": 2.25, "tokens": 8_000_000, "phase": "training", "step_at": NOW.isoformat(),
    "journey": [[(NOW - timedelta(hours=10)).isoformat(), 400]],
}  # fmt: skip
"""What the loop measured of a chain that runs."""


def pulse(**more: object) -> Pulse:
    polls = (
        PollFacts("c1", "squeue", NOW - timedelta(seconds=20), 0.16),
        PollFacts("c1", "sacct", NOW - timedelta(hours=1), 1.5),
    )
    return replace(
        Pulse(NOW - timedelta(seconds=20), NOW - timedelta(days=1), timedelta(minutes=1), polls=polls), **more
    )  # type: ignore[arg-type]


@dataclass
class MemoryReads:
    rows: list[ChainRecord] = field(default_factory=list)
    bumped: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    nodes: list[ExcludedNode] = field(default_factory=list)

    def chains(self) -> list[ChainRecord]:
        return self.rows

    def counters(self) -> list[tuple[str, dict[str, str], float]]:
        return [(name, dict(labels), value) for (name, labels), value in self.bumped.items()]

    def undelivered(self) -> list[Notice]:
        return self.notices

    def excluded(self, now: datetime) -> Sequence[ExcludedNode]:
        return self.nodes

    def bump(self, name: str, labels: dict[str, str], by: float = 1) -> None:
        key = name, tuple(sorted(labels.items()))
        self.bumped[key] = self.bumped.get(key, 0) + by


@pytest.fixture
def store() -> MemoryReads:
    reads = MemoryReads()
    reads.rows = [
        chain("run-a", step=4000, saved_step=3900, target=10000, facts=FACTS),
        chain("run-b", ChainState.RESTING),
        chain('odd\nname é "quoted" \\', ChainState.PENDING),
    ]
    for counted in Counted:
        count(reads, counted, 3, **{name: "run-a" if name == "chain" else "x" for name in counted.labels})
    reads.notices = [Notice(1, "run-b", "k", "critical", "t", {}, NOW - timedelta(minutes=5))]
    reads.nodes = [ExcludedNode("n1", "Xid 79", NOW, NOW + timedelta(days=2))]
    return reads
