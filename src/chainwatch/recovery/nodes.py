"""Which nodes the next job keeps away from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from chainwatch.config.models import Nodes
from chainwatch.model.chain import ExcludedNode, History
from chainwatch.model.verdict import Cause, Retry, Verdict

HARDWARE = frozenset({Cause.HARDWARE_GPU, Cause.HARDWARE_NODE, Cause.NETWORK_FABRIC, Cause.HANG})
"""Causes that may blame a node. A user's error never does, whatever node it ran on."""


def blamed(verdict: Verdict, chain: str, policy: Nodes, now: datetime) -> tuple[ExcludedNode, ...]:
    """The exclusions that follow from one verdict: the culprit nodes of a hardware cause, for `exclude_for`."""
    if verdict.retry is not Retry.YES_EXCLUDE_NODE and verdict.cause not in HARDWARE:
        return ()
    if verdict.cause not in HARDWARE:
        return ()
    why = f"{verdict.cause}: {verdict.root_line or verdict.sentence}"[:300]
    return tuple(ExcludedNode(node, why, now, now + policy.exclude_for, chain) for node in verdict.culprit_nodes)


def to_exclude(history: History, policy: Nodes, now: datetime, partition_size: int | None) -> tuple[str, ...]:
    """Names for --exclude: newest exclusions first, within the cap of number and of the partition's share."""
    cap = policy.max_excluded
    if partition_size is not None:
        cap = min(cap, int(partition_size * policy.max_share))
    live = sorted((e for e in history.excluded if e.until > now), key=lambda e: e.since, reverse=True)
    return tuple(sorted(_first(dict.fromkeys(e.node for e in live), cap)))


def suspects(exclusions: Iterable[ExcludedNode], now: datetime) -> dict[str, tuple[str, ...]]:
    """Nodes that chains other than one have excluded: node to the names of these chains (two or more)."""
    by_node: dict[str, set[str]] = {}
    for e in exclusions:
        if e.until > now and e.chain is not None:
            by_node.setdefault(e.node, set()).add(e.chain)
    return {node: tuple(sorted(chains)) for node, chains in by_node.items() if len(chains) > 1}


def _first(names: Iterable[str], most: int) -> list[str]:
    return list(names)[: max(most, 0)]
