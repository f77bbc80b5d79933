"""Attempts, their evidence, and what was decided about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, insert, select, update
from sqlalchemy.engine import Connection

from chainwatch.model.chain import Attempt, Decision
from chainwatch.model.job import AttemptId
from chainwatch.model.verdict import Evidence
from chainwatch.store import schema
from chainwatch.store.codec import decision_class, decision_kind, decode, encode
from chainwatch.store.database import Database
from chainwatch.store.errors import AttemptTaken, StoreError
from chainwatch.store.types import storable

_A, _C, _D, _E = schema.attempts, schema.chains, schema.decisions, schema.evidence


def _identity(attempt: AttemptId) -> Any:
    return (_A.c.cluster == attempt.cluster) & (_A.c.job_id == attempt.job_id) & (_A.c.submitted == attempt.submitted)


class Attempts(Database):
    def keep_attempts(self, chains: Mapping[str, datetime]) -> None:
        """In this thread, read the attempts of these chains (name to `created`) once and keep them until this thread
        changes them. For the owner of the lease, who alone writes attempts; to be called again in each tick."""
        created, kept = self._kept()
        self._local.attempts = (dict(chains), {n: a for n, a in kept.items() if created.get(n) == chains.get(n)})

    def _kept(self) -> tuple[dict[str, datetime], dict[str, tuple[Attempt, ...]]]:
        """Of this thread: the chains whose attempts are kept, and what is kept."""
        kept: tuple[dict[str, datetime], dict[str, tuple[Attempt, ...]]] | None
        kept = getattr(self._local, "attempts", None)
        return ({}, {}) if kept is None else kept

    def attempts(self, chain: str, last: int | None = None) -> tuple[Attempt, ...]:
        """The chain's attempts, oldest first; with `last` only that many newest ones."""
        created, kept = self._kept()
        if chain not in created or getattr(self._local, "connection", None) is not None:
            return self._attempts(chain, last)  # also inside a transaction, whose end nobody knows
        if chain not in kept:
            kept[chain] = self._attempts(chain, None)
        found = kept[chain]
        return found if last is None else found[max(0, len(found) - last) :]

    def _attempts(self, chain: str, last: int | None) -> tuple[Attempt, ...]:
        query = select(_A.c.document).join(_C).where(_C.c.name == chain).order_by(_A.c.number.desc()).limit(last)
        with self._reading() as connection:
            newest_first = [decode(Attempt, row.document) for row in connection.execute(query)]
        return tuple(reversed(newest_first))

    def attempt_by_id(self, attempt: AttemptId) -> tuple[str, Attempt] | None:
        """The chain that has this attempt, and the attempt; None if no registered chain has it."""
        with self._reading() as connection:
            row = connection.execute(self._active().where(_identity(attempt))).first()
            return None if row is None else (row.name, decode(Attempt, row.document))

    def live_attempts(self) -> list[tuple[str, Attempt]]:
        """Each attempt that has not ended, with its chain, oldest first."""
        query = self._active().where(_A.c.ended.is_(None)).order_by(_C.c.name, _A.c.number)
        with self._reading() as connection:
            return [(row.name, decode(Attempt, row.document)) for row in connection.execute(query)]

    @staticmethod
    def _active() -> Select[Any]:
        return select(_C.c.name, _A.c.document).join(_C).where(_C.c.archived.is_(False))

    def put_attempt(self, chain: str, attempt: Attempt) -> Attempt:
        """Insert the attempt, or update the one of the same AttemptId, whose number is kept. Returns it as stored.

        The number 0 asks for the chain's next one. Raises AttemptTaken if another registered chain has this attempt.
        """
        identity = attempt.job.attempt
        self._kept()[1].pop(chain, None)
        with self._writing() as connection:
            chain_id = self._chain_id(connection, chain)
            known = connection.execute(
                select(_A.c.id, _A.c.number).where(_A.c.chain_id == chain_id, _identity(identity))
            ).one_or_none()
            if known is not None:
                stored = replace(attempt, number=known.number)
                values = {"ended": stored.ended, "document": encode(Attempt, stored)}
                connection.execute(update(_A).where(_A.c.id == known.id).values(**values))
                return stored
            owner = connection.execute(self._active().where(_identity(identity))).first()
            if owner is not None:
                raise AttemptTaken(f"job {attempt.job.shown_id} belongs to the chain {owner.name!r}, not to {chain!r}")
            stored = replace(attempt, number=self._number(connection, chain_id, chain, attempt))
            connection.execute(
                insert(_A).values(
                    chain_id=chain_id,
                    number=stored.number,
                    cluster=identity.cluster,
                    job_id=identity.job_id,
                    submitted=identity.submitted,
                    ended=stored.ended,
                    document=encode(Attempt, stored),
                )
            )
            return stored

    def move_attempt(self, chain: str, known: AttemptId, attempt: Attempt) -> None:
        """Write down that an attempt is another job than it was known as: its sibling on another cluster."""
        identity = attempt.job.attempt
        self._kept()[1].pop(chain, None)
        with self._writing() as connection:
            chain_id = self._chain_id(connection, chain)
            changed = connection.execute(
                update(_A)
                .where(_A.c.chain_id == chain_id, _identity(known))
                .values(
                    cluster=identity.cluster,
                    job_id=identity.job_id,
                    submitted=identity.submitted,
                    document=encode(Attempt, attempt),
                )
            )
            if not changed.rowcount:
                raise StoreError(f"{chain} has no attempt {known}")

    @staticmethod
    def _number(connection: Connection, chain_id: int, chain: str, attempt: Attempt) -> int:
        if attempt.number < 1:
            highest = connection.execute(select(func.max(_A.c.number)).where(_A.c.chain_id == chain_id)).scalar()
            return (highest or 0) + 1
        taken = connection.execute(
            select(_A.c.job_id).where(_A.c.chain_id == chain_id, _A.c.number == attempt.number)
        ).scalar()
        if taken is not None:
            raise StoreError(f"attempt {attempt.number} of {chain} is job {taken}, not {attempt.job.job_id}")
        return attempt.number

    def _attempt_row(self, connection: Connection, chain: str, number: int) -> int | None:
        query = select(_A.c.id).join(_C).where(_C.c.name == chain, _A.c.number == number)
        found = connection.execute(query).scalar()
        return None if found is None else int(found)

    def put_evidence(self, chain: str, number: int, evidence: Evidence) -> None:
        """Keep what was known when the attempt was judged (a later judgement replaces it)."""
        with self._writing() as connection:
            row_id = self._attempt_row(connection, chain, number)
            if row_id is None:
                raise StoreError(f"{chain} has no attempt {number}")
            document = encode(Evidence, evidence)
            changed = connection.execute(update(_E).where(_E.c.attempt_id == row_id).values(document=document))
            if not changed.rowcount:
                connection.execute(insert(_E).values(attempt_id=row_id, document=document))

    def evidence(self, chain: str, number: int) -> Evidence | None:
        """The evidence of that attempt; None if it was not judged or does not exist."""
        with self._reading() as connection:
            row_id = self._attempt_row(connection, chain, number)
            document = connection.execute(select(_E.c.document).where(_E.c.attempt_id == row_id)).scalar()
            return None if document is None else decode(Evidence, document)

    def add_decision(self, chain: str, number: int | None, decision: Decision, now: datetime, sentence: str) -> bool:
        """Write down what was decided about the chain (and which attempt it followed).

        False: it is the last decision again, in the same words about the same attempt, and was not written twice.
        """
        kind = decision_kind(decision)
        with self._writing() as connection:
            chain_id = self._chain_id(connection, chain)
            last = connection.execute(
                select(_D).where(_D.c.chain_id == chain_id).order_by(_D.c.id.desc()).limit(1)
            ).first()
            if last is not None and (last.number, last.kind, last.sentence) == (number, kind, storable(sentence)):
                return False
            connection.execute(
                insert(_D).values(
                    chain_id=chain_id,
                    number=number,
                    at=now,
                    kind=kind,
                    sentence=sentence,
                    document=encode(type(decision), decision),
                )
            )
            return True

    def decisions(self, chain: str, last: int | None = None) -> list[tuple[datetime, int | None, Decision, str]]:
        """What was decided, oldest first: when, after which attempt, the decision, and its sentence."""
        query = select(_D).join(_C).where(_C.c.name == chain).order_by(_D.c.id.desc()).limit(last)
        with self._reading() as connection:
            newest_first = [_decision(row) for row in connection.execute(query)]
        return newest_first[::-1]


def _decision(row: Row[Any]) -> tuple[datetime, int | None, Decision, str]:
    decision: Decision = decode(decision_class(row.kind), row.document)
    return row.at, row.number, decision, row.sentence
