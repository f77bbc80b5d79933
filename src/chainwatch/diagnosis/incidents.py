"""Many attempts failing together: from one cause of the cluster (an incident), or from one mistake (a cohort). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause, Outcome

TOGETHER = timedelta(minutes=5)
"""Ends within this span may have one cause."""
QUIET = timedelta(minutes=10)
"""An incident is over when no such end was seen for this long."""
AT_LEAST = 3
_OF_THE_CLUSTER = frozenset(
    {Cause.STORAGE, Cause.NETWORK_FABRIC, Cause.TRANSIENT_SERVICE, Cause.HARDWARE_NODE, Cause.RENDEZVOUS}
)
_NEVER_COHORT = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.COMPLETED}) | _OF_THE_CLUSTER


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
    by_cause: dict[Cause, list[tuple[str, Attempt]]] = defaultdict(list)
    for chain, attempt in last.items():
        if attempt.verdict and attempt.ended and attempt.verdict.cause in _OF_THE_CLUSTER:
            by_cause[attempt.verdict.cause].append((chain, attempt))
    found: list[Incident] = []
    for cause, ends in by_cause.items():
        ends.sort(key=lambda e: e[1].ended or now)
        for group in _groups(ends, now):
            nodes = {n for _, a in group for n in a.job.nodes}
            began, newest = group[0][1].ended or now, group[-1][1].ended or now
            if len(group) >= AT_LEAST and len(nodes) >= AT_LEAST and now - newest < QUIET:
                found.append(Incident(cause, tuple(c for c, _ in group), tuple(sorted(nodes)), began, newest))
    return max(found, key=lambda i: i.newest, default=None)


def _groups(ends: Sequence[tuple[str, Attempt]], now: datetime) -> list[list[tuple[str, Attempt]]]:
    groups: list[list[tuple[str, Attempt]]] = []
    for end in ends:
        moment = end[1].ended or now
        if groups and moment - (groups[-1][-1][1].ended or now) <= TOGETHER:
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups


def find_cohorts(last: Mapping[str, tuple[str, Attempt]]) -> dict[str, str]:
    """Template to root line, where three chains of one template failed the same way last: `last` maps each chain to its
    template and last judged attempt."""
    seen: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], str] = {}
    for template, attempt in last.values():
        verdict = attempt.verdict
        if verdict is None or verdict.outcome is not Outcome.FAILED or verdict.cause in _NEVER_COHORT:
            continue
        if not verdict.fingerprint:
            continue
        key = (template, verdict.fingerprint)
        seen[key] += 1
        lines[key] = verdict.root_line or verdict.sentence
    return {template: lines[template, print_] for (template, print_), n in seen.items() if n >= AT_LEAST}
