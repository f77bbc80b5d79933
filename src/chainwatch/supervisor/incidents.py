"""Incidents of the cluster: their chains are held until a probe shows recovery, no node is blamed, and people hear once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from chainwatch.alerts.message import Kind, body
from chainwatch.config.models import Chain
from chainwatch.diagnosis.incidents import TOGETHER, Held, Incident, find_incident, grown, probed
from chainwatch.model.chain import Attempt, ChainState
from chainwatch.recovery import over_before
from chainwatch.store.codec import decode, encode
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import recovered
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place

_MEMORY = "incident"
_COUNTS = frozenset(
    {ChainState.PENDING, ChainState.RECOVERING, ChainState.WAITING, ChainState.RESTING, ChainState.STOPPED}
)
"""A chain whose next job runs has recovered; one whose next job waits in the queue has not shown it yet."""


class Incidents:
    """The incident that is under way, if there is one: it is kept in the store, so that a restart changes nothing."""

    def __init__(self, house: House) -> None:
        self.house = house

    def look(self, chains: Sequence[ChainRecord], past: Mapping[str, Sequence[Attempt]], now: datetime) -> Held | None:
        """The incident of this pass, after what was found, probed and told of it."""
        store = self.house.store
        kept = store.recall(_MEMORY)
        before = decode(Held, kept) if kept is not None else None
        held = grown(before, find_incident(_last_ends(chains, past), now))
        if held is None or held.over is not None:
            return held
        held = probed(held, self._probe(held.incident, chains), now)
        with store.transaction(self.house.lease):
            if held != before:
                store.remember(_MEMORY, encode(Held, held))
            self._blame_nobody(held.incident, now)
            if held.over is None:
                why = held.incident.sentence()
                did = "the chains wait until a probe shows recovery, then return one after the other; no node is blamed"
                store.owe(None, held.key, "critical", f"incident: {why}", body(Kind.INCIDENT, why=why, did=did), now)
            else:
                store.recover(held.key, now)
        return held

    def _probe(self, incident: Incident, chains: Sequence[ChainRecord]) -> str:
        mine = [record for record in chains if record.name in incident.chains]
        places = []
        for record in mine[: recovered.SAMPLES]:
            settings = Chain.model_validate(record.settings)
            place = Place(record.name, settings, Acting.directory(record, settings))
            places.append((place, self.house.may_act(record)))
        clusters = sorted({record.cluster for record in mine} & set(self.house.backends))
        return recovered.probe(incident, places, [self.house.backends[c] for c in clusters], self.house.readers)

    def _blame_nobody(self, incident: Incident, now: datetime) -> None:
        """What was excluded for ends of the incident is used again: its nodes are as good as any."""
        for one in self.house.store.excluded(now):
            if one.node in incident.nodes and one.chain in incident.chains and one.since >= incident.began - TOGETHER:
                self.house.store.unexclude(one.node, one.chain)


def _last_ends(chains: Sequence[ChainRecord], past: Mapping[str, Sequence[Attempt]]) -> dict[str, Attempt]:
    """Each chain's last judged attempt, of those that have not gone on since and that nobody retried by hand."""
    last: dict[str, Attempt] = {}
    for record in chains:
        judged = [a for a in past[record.name] if a.verdict is not None]
        if judged and record.state in _COUNTS and not over_before(judged[-1], record.retried_at):
            last[record.name] = judged[-1]
    return last
