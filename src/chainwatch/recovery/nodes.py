"""Which nodes the next job keeps away from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from chainwatch.config.models import Nodes
from chainwatch.model.chain import ExcludedNode, History
from chainwatch.model.verdict import Cause, Verdict

HARDWARE = frozenset({Cause.HARDWARE_GPU, Cause.HARDWARE_NODE, Cause.NETWORK_FABRIC, Cause.HANG})
"""Causes that may blame a node. A user's error never does, whatever node it ran on."""


def blamed(verdict: Verdict, chain: str, policy: Nodes, now: datetime) -> tuple[ExcludedNode, ...]:
    """The exclusions that follow from one verdict: the culprit nodes of a hardware cause, for `exclude_for`."""
    if verdict.cause not in HARDWARE:
        return ()
    why = f"{verdict.cause}: {verdict.root_line or verdict.sentence}"[:300]
    return tuple(ExcludedNode(node, why, now, now + policy.exclude_for, chain) for node in verdict.culprit_nodes)


def to_exclude(
    history: History, policy: Nodes, now: datetime, partition_size: int | None, needed: int = 0
) -> tuple[str, ...]:
    """Names for --exclude: newest exclusions first, within the cap of number and of the partition's share, and so that as
    many nodes as the job needs are left."""
    cap = policy.max_excluded
    if partition_size is not None:
        cap = min(cap, int(partition_size * policy.max_share), partition_size - needed)
    live = sorted((e for e in history.excluded if e.until > now), key=lambda e: e.since, reverse=True)
    return tuple(sorted(_first(dict.fromkeys(e.node for e in live), cap)))


def for_chain(exclusions: Iterable[ExcludedNode], chain: str, now: datetime) -> tuple[ExcludedNode, ...]:
    """Of all exclusions those that hold for this chain: its own, those for all, and suspect nodes."""
    every = tuple(e for e in exclusions if e.until > now)
    own = tuple(e for e in every if e.chain in (None, chain))
    return (*own, *(e for e in shared(every, now) if e.node not in {o.node for o in own}))


def shared(exclusions: Iterable[ExcludedNode], now: datetime) -> tuple[ExcludedNode, ...]:
    """The suspect nodes, as exclusions for all chains."""
    every = tuple(exclusions)
    found = []
    for node, chains in suspects(every, now).items():
        of_node = [e for e in every if e.node == node and e.chain is not None and e.until > now]
        newest = max(of_node, key=lambda e: e.since)
        why = f"suspect, it ended jobs of {' and '.join(chains)}: {newest.why}"
        found.append(ExcludedNode(node, why, newest.since, max(e.until for e in of_node), None))
    return tuple(found)


def suspects(exclusions: Iterable[ExcludedNode], now: datetime) -> dict[str, tuple[str, ...]]:
    """Nodes that two chains or more keep away from, since they ended jobs of each: node to the names of these chains."""
    by_node: dict[str, set[str]] = {}
    for e in exclusions:
        if e.until > now and e.chain is not None:
            by_node.setdefault(e.node, set()).add(e.chain)
    return {node: tuple(sorted(chains)) for node, chains in by_node.items() if len(chains) > 1}


def _first(names: Iterable[str], most: int) -> list[str]:
    return list(names)[: max(most, 0)]
