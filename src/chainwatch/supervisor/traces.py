"""The traces that the loop leaves in the store: state and sentence, facts, decisions, alerts that are owed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from chainwatch.alerts.message import body
from chainwatch.model.chain import Attempt, ChainState, Decision, Rest, Stop
from chainwatch.model.job import AttemptId, Job
from chainwatch.store.codec import decision_kind
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Intent
from chainwatch.supervisor.house import House
from chainwatch.supervisor.notices import kind_of

ENDED_BY_US = "ended_by_us"
"""Fact of the chain's record: why we ended an attempt, so that its end is nobody's scancel."""

CHECKING_BOUND = timedelta(minutes=5)
"""How long a chain may be `recovering` because files, accounting or the queue do not answer."""


class Traces:
    """Writes the traces of one house's chains."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._over: set[str] = set()
        """What is surely not told, or over: of what an earlier daemon told nobody knows."""

    def tell_all(self, key: str, severity: str, title: str, said: dict[str, Any], now: datetime) -> None:
        """An alert that is owed about no chain of its own."""
        self._over.discard(key)
        self.house.store.owe(None, key, severity, title, said, now)

    def over(self, key: str, now: datetime) -> None:
        """What `tell_all` told under this key is over. Cheap where nothing was told."""
        if key not in self._over:
            self.house.store.recover(key, now)
            self._over.add(key)

    def state(
        self, record: ChainRecord, state: ChainState, sentence: str, now: datetime, **changes: Any
    ) -> ChainRecord:
        """Record state and sentence; say the sentence if it is new."""
        same_state, same_words = record.state is state, record.sentence == sentence
        if same_state and same_words and not any(getattr(record, k) != v for k, v in changes.items()):
            return record
        if not same_state:
            changes["state_since"] = now
        if state is not ChainState.WAITING:
            changes.setdefault("wait_until", None)
        with self.house.store.transaction(self.house.lease):
            changed = self.house.store.update_chain(record.name, state=state, sentence=sentence, **changes)
            if not same_state and state in {ChainState.RUNNING, ChainState.DONE}:
                self._settled(record, now)
        if not same_words:
            self.house.say(sentence, changed, {"state": str(state)})
        return changed

    def checking(self, record: ChainRecord, sentence: str, since: datetime, now: datetime) -> ChainRecord:
        """Facts are being asked for: recovering, and after five minutes waiting, since what does not answer by then may
        not for long. It is asked again all the same."""
        if now - since < CHECKING_BOUND:
            return self.state(record, ChainState.RECOVERING, sentence, now)
        return self.state(record, ChainState.WAITING, sentence, now, wait_until=now + timedelta(minutes=1))

    def _settled(self, record: ChainRecord, now: datetime) -> None:
        """The chain runs (or is done): whatever needed a person about it does no more."""
        for notice in self.house.store.active_notices(record.name):
            if notice.severity != "info" and not notice.key.startswith(f"{record.name}:hang"):
                self.house.store.recover(notice.key, now)

    def owe(
        self,
        record: ChainRecord,
        key: str,
        severity: str,
        title: str,
        now: datetime,
        *,
        what: str = "",
        why: str = "",
        line: str = "",
        did: str = "",
        wants: str = "",
        command: str = "",
    ) -> None:
        """An alert that is owed. The key tells it from others of this chain, so that it is told once."""
        self.house.store.owe(
            record.name,
            f"{record.name}:{key}",
            severity,
            title,
            body(kind_of(key), what=what, why=why, line=line, did=did, wants=wants, command=command),
            now,
        )

    def write(self, chain: str, number: int | None, decision: Decision, now: datetime, sentence: str) -> None:
        """Write down a decision; the same one again is neither written nor counted."""
        if self.house.store.add_decision(chain, number, decision, now, sentence):
            count(self.house.store, Counted.DECISIONS, decision=decision_kind(decision))

    def decided(
        self,
        record: ChainRecord,
        state: ChainState,
        decision: Decision,
        number: int | None,
        sentence: str,
        now: datetime,
        **changes: Any,
    ) -> ChainRecord:
        """Write the decision down, with the state and the sentence that it brings."""
        if record.state is state and record.sentence == sentence:
            return self.state(record, state, sentence, now, **changes)  # said already
        with self.house.store.transaction(self.house.lease):
            self.write(record.name, number, decision, now, sentence)
            return self.state(record, state, sentence, now, **changes)

    def rest(self, record: ChainRecord, decision: Rest | Stop, last: Attempt | None, now: datetime) -> ChainRecord:
        """The chain rests or is stopped, and a person is told, unless one alert about several chains does so."""
        state = ChainState.RESTING if isinstance(decision, Rest) else ChainState.STOPPED
        number = last.number if last else None
        verdict = last.verdict if last else None
        with self.house.store.transaction(self.house.lease):
            if not (isinstance(decision, Stop) and decision.told):
                retried = record.retried_at.isoformat() if record.retried_at else ""
                self.owe(
                    record, f"{state}:{number}:{retried}", "critical", f"{record.name} is {state}: it needs you", now,
                    what=verdict.sentence if verdict and verdict.sentence not in decision.why else "",
                    why=decision.why, wants=decision.advice,
                    line=(verdict.root_line if verdict else None) or "", command=f"chainwatch explain {record.name}",
                )  # fmt: skip
            return self.decided(record, state, decision, number, f"{decision.why}. {decision.advice}", now)

    def expect(self, chain: str, job_id: int, intent: Intent, now: datetime) -> None:
        """A job was submitted: from now on it is looked for. Inside the caller's transaction."""
        current = self.house.store.chain(chain)
        assert current is not None, "an intent belongs to a chain"
        expected = {
            "job_id": job_id,
            "since": now.isoformat(),
            "token": intent.token,
            "resume": intent.payload.get("resume"),
            "digest": intent.payload.get("digest", ""),
            "image": intent.payload.get("image", ""),
            "variables": sorted(name for name, _ in intent.payload.get("submission", {}).get("environment", ())),
        }
        facts = {k: v for k, v in current.facts.items() if k != "refused_until"} | {"expected": expected}
        if isinstance(array := facts.get("array"), Mapping):
            facts["array"] = {**array, "id": job_id}
        self.house.store.update_chain(chain, facts=facts)

    def number(self, record: ChainRecord, job: Job) -> int | None:
        """Which attempt of the chain this job is."""
        attempts = self.house.store.attempts(record.name)
        return next((a.number for a in attempts if a.job.attempt == job.attempt), None)

    def again(self, record: ChainRecord) -> ChainRecord:
        """The record as the store has it now."""
        return self.house.store.chain(record.name) or record

    def with_fact(self, record: ChainRecord, key: str, value: Any) -> ChainRecord:
        """The record with this fact set; the others are as the store has them by now."""
        with self.house.store.transaction(self.house.lease):
            return self.house.store.update_chain(record.name, facts={**self.again(record).facts, key: value})

    def with_note(self, record: ChainRecord, key: str, attempt: AttemptId, value: Any) -> ChainRecord:
        """The record with this note of one attempt, under a fact that holds such notes."""
        with self.house.store.transaction(self.house.lease):
            notes = dict(self.again(record).facts.get(key) or {})
            return self.with_fact(record, key, {**notes, str(attempt): value})

    def without_fact(self, record: ChainRecord, key: str) -> ChainRecord:
        """The record without this fact."""
        if key not in record.facts:
            return record
        with self.house.store.transaction(self.house.lease):
            facts = {k: v for k, v in self.again(record).facts.items() if k != key}
            return self.house.store.update_chain(record.name, facts=facts)
