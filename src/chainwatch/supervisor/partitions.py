"""How many nodes a partition has: asked only when nodes are to be excluded, so that a share of it stays free."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from chainwatch.model.chain import History
from chainwatch.slurm.backend import NoInformation
from chainwatch.supervisor.house import House

_KEPT = timedelta(minutes=30)
"""Partitions seldom change: one question for all chains of a cluster in this time."""


class Partitions:
    """Sizes of partitions, by cluster, remembered for half an hour."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._seen: dict[str, tuple[datetime, Counter[str]]] = {}

    def size(self, cluster: str, past: History, now: datetime) -> int | None:
        """Nodes of the partition that the last job ran in. None: nothing is excluded, or Slurm did not say."""
        live = any(one.until > now for one in past.excluded)
        if not live or not past.attempts or cluster not in self.house.backends:
            return None
        if cluster not in self._seen or now - self._seen[cluster][0] >= _KEPT:
            try:
                nodes = self.house.backends[cluster].nodes()
            except NoInformation:
                return None
            self._seen[cluster] = now, Counter(name for node in nodes for name in node.partitions)
        return self._seen[cluster][1].get(past.attempts[-1].job.partition)
