"""The chains of the configuration in the store: new ones are added, changed settings are taken over, and those that were
taken out are let go.

A chain that is let go keeps its record and its history, and its job goes on; chainwatch does nothing more for it until
it stands in the configuration again. Chains that were made by `chainwatch sbatch` or `adopt` stand in none and stay, and so
do those of another configuration that is still there: whoever runs two of them on one state by mistake loses none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from chainwatch.config.models import Chain, Config
from chainwatch.model.chain import ChainState
from chainwatch.model.plain_file import may_exist
from chainwatch.model.text import some
from chainwatch.store.records import CONFIGURATION, CONFIGURED, RELEASED, ChainRecord, Origin
from chainwatch.supervisor.house import House
from chainwatch.supervisor.traces import Traces

MODE = "config_mode"
"""Fact: the mode that the configuration named last; another one there is a new wish, and the same one is none."""


class Configured:
    """Keeps the store in step with the configuration of one house."""

    def __init__(self, house: House, traces: Traces) -> None:
        self._house = house
        self._traces = traces
        self._dumped: tuple[Config | None, dict[str, dict[str, Any]]] = (None, {})
        self._there: dict[str, bool] = {}
        """Whether another configuration that was asked for is still there, since this one was read."""

    def adopt(self, config: Config, records: Iterable[ChainRecord]) -> bool:
        """Bring the store in step; `records`: all chains that it has. True: something was changed."""
        now = self._house.clock.now()
        known = {r.name: r for r in records}
        changed = False
        if self._dumped[0] is not config:
            self._begin(config, known)
        for name, settings in self._dumped[1].items():
            changed |= self._stands(known.get(name), name, settings, config, now)
        for record in known.values():
            gone = record.origin is Origin.CONFIG and record.name not in config.chains and CONFIGURED in record.facts
            if gone and not record.released and not self._of_another(record):
                self._let_go(record, now)
                changed = True
        return changed

    def _begin(self, config: Config, known: Mapping[str, ChainRecord]) -> None:
        """A configuration was read: its settings as the store has them, and whose state this is."""
        self._dumped = (config, {name: chain.model_dump(mode="json") for name, chain in config.chains.items()})
        self._there = {}
        if not self._house.source:
            return
        self._house.store.remember(CONFIGURATION, self._house.source)
        others: dict[str, list[ChainRecord]] = {}
        for record in known.values():
            if not record.released and self._of_another(record):
                others.setdefault(record.configuration or "", []).append(record)
        for other, records in others.items():
            kept = [r.name for r in records if r.name not in config.chains]
            taken = [r.name for r in records if dict(r.settings) != self._dumped[1].get(r.name, dict(r.settings))]
            if kept or taken:
                self._house.warn(_of_two(self._house.source, other, kept, taken))

    def _of_another(self, record: ChainRecord) -> bool:
        """It belongs to another configuration, which is still there."""
        other = record.configuration
        if record.origin is not Origin.CONFIG or not self._house.source or other in {None, self._house.source}:
            return False
        assert other is not None, "it is not this one"
        if other not in self._there:
            self._there[other] = may_exist(other)
        return self._there[other]

    def _stands(
        self, known: ChainRecord | None, name: str, settings: dict[str, Any], config: Config, now: datetime
    ) -> bool:
        chain, store = config.chains[name], self._house.store
        mine = self._house.source or True
        facts = {MODE: str(chain.mode), CONFIGURED: mine}
        if known is None:
            new = first_record(name, chain, settings, self._house.backends, now)
            store.add_chain(replace(new, facts=facts))
            return True
        if known.origin is not Origin.CONFIG:
            return False
        if known.released:
            known = self._take_up(known, now)
        elif dict(known.settings) == settings and known.facts.get(CONFIGURED) == mine:
            return False
        mode = chain.mode if known.facts.get(MODE) != str(chain.mode) else known.mode
        with store.transaction(self._house.lease):
            store.update_chain(name, settings=settings, mode=mode, facts={**known.facts, **facts})
        return True

    def _let_go(self, record: ChainRecord, now: datetime) -> None:
        sentence = "no longer in the configuration: left alone, and its job too"
        store = self._house.store
        fact = {"at": now.isoformat(), "state": str(record.state), "sentence": record.sentence}
        changes: dict[str, Any] = {"facts": {**record.facts, RELEASED: fact}}
        if record.state is not ChainState.DONE:
            changes |= {"state": ChainState.PAUSED, "state_since": now, "sentence": sentence, "wait_until": None}
        with store.transaction(self._house.lease):
            for notice in store.active_notices(record.name):
                store.recover(notice.key, now)
            record = store.update_chain(record.name, **changes)
        self._house.say(f"{sentence}; its history is kept", record, {"state": str(record.state)})

    def _take_up(self, record: ChainRecord, now: datetime) -> ChainRecord:
        """It is as it was. What had needed a person then is told once more."""
        store, fact = self._house.store, record.facts[RELEASED]
        state = ChainState(fact["state"])
        with store.transaction(self._house.lease):
            record = store.update_chain(
                record.name,
                state=state,
                state_since=now if state is not record.state else record.state_since,
                sentence=fact["sentence"],
                facts={k: v for k, v in record.facts.items() if k != RELEASED},
            )
            if state in {ChainState.RESTING, ChainState.STOPPED}:
                self._traces.owe(
                    record, f"{state}:back:{now.isoformat()}", "critical", f"{record.name} is {state}: it needs you", now,
                    what="it is back in the configuration", why=record.sentence,
                    command=f"chainwatch retry {record.name}",
                )  # fmt: skip
        self._house.say("back in the configuration: looked after again", record, {"state": str(state)})
        return record


def _of_two(source: str, other: str, kept: Sequence[str], taken: Sequence[str]) -> str:
    """One state, two configurations: said to whoever started the second."""
    said = [f"this state has chains of another configuration, {other}; the daemon's is {source}"]
    if kept:
        said.append(f"{some(kept)}: looked after as {other} says")
    if taken:
        said.append(f"{some(taken)}: in both, and by now as {source} says")
    return "; ".join(said) + f". Give each a `state` of its own, or remove {other} and reload"


def first_record(
    name: str, chain: Chain, settings: dict[str, Any], clusters: Iterable[str], now: datetime
) -> ChainRecord:
    """The record of a configuration's chain that nobody has registered yet; `settings`: of the chain, dumped."""
    return ChainRecord(
        name=name,
        cluster=chain.cluster or next(iter(clusters), ""),
        origin=Origin.CONFIG,
        mode=chain.mode,
        settings=settings,
        created=now,
        state_since=now,
        facts={MODE: str(chain.mode)},
    )


def taken_up(record: ChainRecord) -> dict[str, Any]:
    """The facts of a chain that a command takes up again, from a file that the daemon may not have read yet."""
    return {k: v for k, v in record.facts.items() if k not in {RELEASED, CONFIGURED}}


__all__ = ["Configured", "first_record", "taken_up"]
