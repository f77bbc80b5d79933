"""What the loop must know of its chains' jobs to ask Slurm no more than it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from chainwatch.model.chain import Attempt, ChainState, Desired, Mode
from chainwatch.model.job import Job
from chainwatch.store.records import ChainRecord, Intent, IntentKind, Origin
from chainwatch.supervisor.arrays import unwatched
from chainwatch.supervisor.house import House
from chainwatch.supervisor.poll import Wanted
from chainwatch.supervisor.sight import Known

LOOK_BACK = timedelta(minutes=10)
"""How far before a doubtful submission its token is looked for in accounting."""
_RECENT_TOKENS = 5


class Asking:
    """Prepares the questions of each poll for one house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._remembered: dict[str, tuple[Any, frozenset[str]]] = {}

    def known(self, record: ChainRecord, attempts: Sequence[Attempt], still_open: Sequence[Intent]) -> Known:
        """What tells the chain's jobs from others."""
        settings = self._house.settings(record)
        ids: dict[int, datetime | None] = {a.job.job_id: a.job.attempt.submitted for a in attempts if a.verdict is None}
        last = attempts[-1] if attempts else None
        if last is not None:
            ids.setdefault(last.job.job_id, last.job.attempt.submitted)
        expected = record.facts.get("expected")
        if isinstance(expected, Mapping):
            ids[int(expected["job_id"])] = None
        array = record.facts.get("array")
        array = array if isinstance(array, Mapping) else {}
        tokens = self._tokens(record, attempts, still_open)
        rule: str | None = None
        over = record.released or record.desired is Desired.DONE or record.state is ChainState.DONE
        if not over and last is not None:
            watching = record.mode is Mode.OBSERVE or self._house.observe_only
            rule = "name+directory" if watching else "name+directory+command"
            if settings.resubmitter.by != "none":
                rule = settings.resubmitter.match
        return Known(
            chain=record.name,
            user=last.job.user if last else self._house.user,
            ids=ids,
            tokens=tokens,
            array_id=array.get("id"),
            array_task=None if array.get("task") is None else str(array["task"]),
            name=last.job.name if last else "",
            directory=last.job.directory if last else "",
            command=last.job.command if last else "",
            rule=rule,
            adopt_after=last.job.attempt.submitted if last else None,
            anew=record.origin is Origin.CONFIG
            and last is None
            and not (expected or array or tokens or record.released),
        )

    def _tokens(self, record: ChainRecord, attempts: Sequence[Attempt], still_open: Sequence[Intent]) -> frozenset[str]:
        """Those of the chain's last submissions; read again once another one may have been begun."""
        expected = record.facts.get("expected")
        token = expected.get("token") if isinstance(expected, Mapping) else None
        state = (record.created, token, len(attempts), frozenset(i.token for i in still_open))
        remembered = self._remembered.get(record.name)
        if remembered is None or remembered[0] != state:
            intents = self._house.store.intents(record.name, last=_RECENT_TOKENS)
            remembered = (state, frozenset(i.token for i in intents if i.kind is IntentKind.SUBMIT))
            self._remembered[record.name] = remembered
        return remembered[1]

    def wanted(
        self,
        jobs: Sequence[Job] | None,
        chains: Sequence[ChainRecord],
        known: Sequence[Known],
        past: Mapping[str, Sequence[Attempt]],
        still_open: Mapping[str, Sequence[Intent]],
    ) -> Wanted:
        """Accounting is asked for attempts that are not over in our book and not alive in the queue, and for tokens of
        submissions whose outcome is not known."""
        live = {j.attempt for j in jobs or () if not j.state.terminal}
        listed = {j.job_id for j in jobs or ()} | {j.array_job_id for j in jobs or ()}
        ids: set[int] = set()
        nodes: set[str] = set()
        since: datetime | None = None
        for record in chains:
            for attempt in () if record.released else past[record.name]:
                if attempt.verdict is None and attempt.job.attempt not in live:
                    ids.add(attempt.job.job_id)
                    nodes.update(attempt.job.nodes)
            expected = record.facts.get("expected")
            if isinstance(expected, Mapping) and expected["job_id"] not in listed and not record.released:
                ids.add(int(expected["job_id"]))
            moments = [
                intent.tried_at - LOOK_BACK
                for intent in still_open.get(record.name, ())
                if intent.kind is IntentKind.SUBMIT and intent.tried_at is not None
            ]
            if jobs is not None and not record.released:
                moments += unwatched(record, past[record.name], jobs)
            since = min((*moments, since) if since is not None else moments, default=None)
        released = {record.name for record in chains if record.released}
        tokens = {t for k in known if k.chain not in released for t in k.tokens}
        met = {a.job.attempt for attempts in past.values() for a in attempts}
        for job in jobs or ():
            if job.state.terminal and job.attempt not in met and any(t in job.comment for t in tokens):
                ids.add(job.job_id)
                nodes.update(job.nodes)
        return Wanted(ids=sorted(ids), since=since, nodes=sorted(nodes))
