"""Many attempts failing together from one cause of the cluster: an incident. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause, Verdict

TOGETHER = timedelta(minutes=5)
"""Ends within this span may have one cause."""
QUIET = timedelta(minutes=10)
"""An incident is over when no such end was seen for this long."""
AT_LEAST = 3
OF_THE_CLUSTER = frozenset(
    {Cause.STORAGE, Cause.NETWORK_FABRIC, Cause.TRANSIENT_SERVICE, Cause.HARDWARE_NODE, Cause.RENDEZVOUS}
)
_LOOKS_LIKE_THE_NETWORK = frozenset({Cause.NETWORK_FABRIC, Cause.HARDWARE_NODE, Cause.RENDEZVOUS})
"""A network that is gone looks like dead nodes to Slurm, like dead peers to NCCL, and like a missing master at the start."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause of the cluster behind the ends of several chains."""

    cause: Cause
    chains: tuple[str, ...]
    nodes: tuple[str, ...]
    began: datetime
    newest: datetime

    @property
    def key(self) -> str:
        return f"incident:{self.cause}:{self.began:%Y%m%dT%H%M}"

    def sentence(self) -> str:
        return (
            f"{len(self.chains)} chains on {len(self.nodes)} nodes ended within minutes of each other ({self.cause}), "
            f"first at {self.began:%H:%M} UTC"
        )


def find_incident(last: Mapping[str, Attempt], now: datetime) -> Incident | None:
    """The incident that is under way, from each chain's last judged attempt: three chains on three nodes, one cause of
    the cluster, within five minutes. No node is to blame then."""
    alike: dict[Cause, list[tuple[str, Attempt]]] = defaultdict(list)
    for chain, attempt in last.items():
        if attempt.verdict and attempt.ended and attempt.verdict.cause in OF_THE_CLUSTER:
            alike[_family(attempt.verdict.cause)].append((chain, attempt))
    found: list[Incident] = []
    for ends in alike.values():
        ends.sort(key=lambda e: e[1].ended or now)
        for group in _groups(ends, now):
            nodes = {n for _, a in group for n in a.job.nodes}
            began, newest = group[0][1].ended or now, group[-1][1].ended or now
            if len(group) >= AT_LEAST and len(nodes) >= AT_LEAST and now - newest < QUIET:
                causes = Counter(a.verdict.cause for _, a in group if a.verdict is not None)
                cause = causes.most_common(1)[0][0]
                found.append(Incident(cause, tuple(c for c, _ in group), tuple(sorted(nodes)), began, newest))
    return max(found, key=lambda i: i.newest, default=None)


def may_be_one(verdict: Verdict, chains: int) -> bool:
    """Whether an end may be part of an incident, so that it is worth a poll to see who else ended: `chains` are watched."""
    return chains >= AT_LEAST and verdict.cause in OF_THE_CLUSTER


def _family(cause: Cause) -> Cause:
    return Cause.NETWORK_FABRIC if cause in _LOOKS_LIKE_THE_NETWORK else cause


def _groups(ends: Sequence[tuple[str, Attempt]], now: datetime) -> list[list[tuple[str, Attempt]]]:
    groups: list[list[tuple[str, Attempt]]] = []
    for end in ends:
        moment = end[1].ended or now
        if groups and moment - (groups[-1][-1][1].ended or now) <= TOGETHER:
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups


SETTLE = timedelta(minutes=2)
"""What looks well at once after the last end may fail again: a probe counts from then on."""
IN_A_ROW = 2
"""So many probes in a row must show recovery: a flapping link answers now and then."""
BOUND = timedelta(hours=6)
"""Probes see less than jobs do: after this long the chains go on, one by one, whatever the probes say."""


@dataclass(frozen=True, slots=True)
class Held:
    """An incident that holds its chains back, and what was seen of the recovery."""

    incident: Incident
    key: str
    """Of its notice: the same however the incident grows."""
    good: int = 0
    """Probes in a row that showed recovery."""
    said: str = ""
    """What the last probe found; empty before the first one."""
    over: datetime | None = None
    """Since when the chains may return."""

    def sentence(self) -> str:
        """What is to be said of it while it lasts; empty once it is over."""
        if self.over is not None:
            return ""
        return self.incident.sentence() + (f"; it waits for recovery ({self.said})" if self.said else "")


def grown(held: Held | None, found: Incident | None) -> Held | None:
    """What is held, given what was found in this pass: more of the same, a new incident, or what there was."""
    if found is None:
        return held
    if held is None or (held.over is not None and found.newest > max(held.over, held.incident.newest)):
        return Held(found, found.key)
    before = held.incident
    if (
        held.over is not None
        or _family(found.cause) is not _family(before.cause)
        or found.newest < before.began - TOGETHER
    ):
        return held
    chains, nodes = {*before.chains, *found.chains}, {*before.nodes, *found.nodes}
    more = Incident(
        before.cause, tuple(sorted(chains)), tuple(sorted(nodes)), min(before.began, found.began),
        max(before.newest, found.newest),
    )  # fmt: skip
    return replace(held, incident=more, good=held.good if more.newest == before.newest else 0)


def part_of(
    held: Held | None, chain: str, attempts: Sequence[Attempt], retried_at: datetime | None = None
) -> Held | None:
    """`held` where this chain's last end belongs to it; None for all others, for chains that have gone on since, and for
    those that a person sent on (`retried_at`)."""
    if held is None or chain not in held.incident.chains:
        return None
    ends = [a.ended for a in attempts if a.verdict is not None and a.ended is not None]
    if not ends or (retried_at is not None and retried_at >= ends[-1]):
        return None
    return held if held.incident.began <= ends[-1] <= held.incident.newest else None


def probed(held: Held, problem: str, now: datetime) -> Held:
    """After one probe: `problem` says what is still wrong, empty where it showed recovery."""
    if held.over is not None or now - held.incident.newest < SETTLE:
        return held
    if now - held.incident.began >= BOUND:
        return replace(held, said=f"not recovered after {BOUND.total_seconds() / 3600:g} hours: {problem}", over=now)
    good = 0 if problem else held.good + 1
    return replace(held, good=good, said=problem or "it answers again", over=now if good >= IN_A_ROW else None)
