"""A chain's job in the queue: what it waits for is in the status at once, and told where it does not pass by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from chainwatch.config.models import Chain
from chainwatch.model.chain import ChainState
from chainwatch.model.job import Job
from chainwatch.model.text import some
from chainwatch.recovery import needs_person
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.hostlist import expand
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.acting import Acting

NODES_OUT = timedelta(hours=6)
"""Nodes are out now and then (a reboot, a drain, backfill that says so in passing): after this long it is looked at."""
_UNAVAILABLE = re.compile(r"ReqNodeNotAvail.*UnavailableNodes:\s*([^\s)]+)")
_STUCK = "stuck"


class Queued:
    """Looks after the pending jobs of one house's chains."""

    def __init__(self, acting: Acting) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces

    def look(self, record: ChainRecord, settings: Chain, job: Job, now: datetime) -> ChainRecord:
        """Say what it waits for; tell a person where that needs one, after a grace."""
        words = f"job {job.shown_id} is pending" + (f" ({job.reason})" if job.reason not in {"", "None"} else "")
        lifted = self.acting.holding.look(record, settings, job, now)
        words += f"; {lifted}" if lifted else ""
        person = needs_person(job.reason)
        words += f": {person.why}" if person is not None and not lifted else ""
        record = self.traces.state(record, ChainState.PENDING, words, now)
        if person is not None:
            record, since = self._since(record, job, job.reason, now)
            if now - since >= settings.recovery.pending_alert:
                self._tell(record, job, job.reason, person.why, person.do, now)
            return record
        named = _UNAVAILABLE.search(job.reason)
        if named is None:
            return self.traces.without_fact(record, _STUCK)
        record, since = self._since(record, job, "ReqNodeNotAvail", now)
        return record if now - since < NODES_OUT else self._nodes_out(record, job, expand(named[1]), now)

    def _since(self, record: ChainRecord, job: Job, reason: str, now: datetime) -> tuple[ChainRecord, datetime]:
        """Since when this job waits for this reason."""
        stuck = record.facts.get(_STUCK)
        if isinstance(stuck, Mapping) and stuck.get("reason") == reason and stuck.get("job") == job.job_id:
            return record, datetime.fromisoformat(str(stuck["since"]))
        return self._stuck(record, job, reason, now), now

    def _stuck(self, record: ChainRecord, job: Job, reason: str, now: datetime) -> ChainRecord:
        return self.traces.with_fact(record, _STUCK, {"reason": reason, "job": job.job_id, "since": now.isoformat()})

    def _nodes_out(self, record: ChainRecord, job: Job, names: tuple[str, ...], now: datetime) -> ChainRecord:
        """It has waited for nodes by name for hours: told only where they are really out. Looked at again as much later."""
        backend = self.house.backends.get(record.cluster)
        try:
            out = [n for n in backend.nodes(names) if not n.usable] if backend is not None else []
        except NoInformation:
            return record
        if out:
            why = f"it waits for nodes that have been out for hours: {some([f'{n.name} is {n.state}' for n in out])}"
            do = "ask the site's staff when they are back, or leave them out of --nodelist or the constraint"
            self._tell(record, job, "ReqNodeNotAvail", why, do, now)
        return self._stuck(record, job, "ReqNodeNotAvail", now)

    def _tell(self, record: ChainRecord, job: Job, reason: str, why: str, do: str, now: datetime) -> None:
        with self.house.store.transaction(self.house.lease):
            self.traces.owe(
                record, f"pending:{job.job_id}:{reason}", "warning",
                f"{record.name}: job {job.shown_id} waits for a person ({reason})", now, why=why, wants=do,
                command=f"scontrol show job {job.job_id}",
            )  # fmt: skip
