"""Holding a pending job and releasing it, journaled first. Doing either twice changes nothing, so an intent that was
interrupted is decided anew."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from chainwatch.actions.audit import Audit
from chainwatch.actions.tag import new_token
from chainwatch.model.job import Job
from chainwatch.slurm.backend import Backend, NoInformation, Refused
from chainwatch.store import Store
from chainwatch.store.records import Intent, IntentKind, IntentStatus, Lease


@dataclass(frozen=True, slots=True)
class Holds:
    """Holds and releases jobs, as the owner of `lease` (None: a person's command)."""

    store: Store
    lease: Lease | None
    audit: Audit

    def hold(self, backend: Backend, chain: str, job: Job, why: str, now: datetime) -> str:
        """Hold a pending job as its user. Empty, or why it was not done."""
        return self._do(IntentKind.HOLD, backend, chain, job, why, now)

    def release(self, backend: Backend, chain: str, job: Job, why: str, now: datetime) -> str:
        """Lift the hold that `job` shows, if it is still that one: an operator may have put theirs on top, and who runs
        chainwatch may be allowed to lift it. Empty, or why it was not done."""
        return self._do(IntentKind.RELEASE, backend, chain, job, why, now)

    def lifted(self, chain: str, job: Job, now: datetime) -> None:
        """Somebody else lifted our hold: a later one is theirs."""
        note = "released by somebody else"
        with self.store.transaction(self.lease):
            intent = self._begin(IntentKind.RELEASE, chain, job, note, now)
            self.store.close_intent(self.lease, intent, IntentStatus.ABANDONED, now, note=note)

    def _do(self, kind: IntentKind, backend: Backend, chain: str, job: Job, why: str, now: datetime) -> str:
        with self.store.transaction(self.lease):
            intent = self.store.mark_tried(self.lease, self._begin(kind, chain, job, why, now), now)
        status, problem = IntentStatus.DONE, ""
        try:
            if kind is IntentKind.RELEASE:
                _same_hold(backend, job)
            self.audit.note(now, str(kind), chain, job=job.job_id, why=why)
            (backend.release if kind is IntentKind.RELEASE else backend.hold)(job.job_id)
        except (Refused, NoInformation) as error:
            status, problem = IntentStatus.REFUSED, str(error)
        self.store.close_intent(self.lease, intent, status, now, job_id=job.job_id, note=problem)
        return problem

    def _begin(self, kind: IntentKind, chain: str, job: Job, why: str, now: datetime) -> Intent:
        payload = {"job": job.job_id, "attempt": str(job.attempt), "reason": job.reason, "why": why}
        return self.store.begin_intent(self.lease, chain, kind, new_token(), payload, now)


@dataclass(frozen=True, slots=True)
class Past:
    """What we did to the holds of one job."""

    held: bool = False
    """We hold this attempt, and the hold was not lifted since."""
    releases: int = 0
    tries: int = 0
    """Releases that were tried, over the job's requeues."""
    last: Intent | None = None
    """The last of them."""


def past(store: Store, chain: str, job: Job) -> Past:
    """From the chain's intents."""
    mine = [
        i
        for i in store.intents(chain)
        if i.kind in {IntentKind.HOLD, IntentKind.RELEASE} and i.payload.get("job") == job.job_id
    ]
    now = [i for i in mine if i.payload.get("attempt") == str(job.attempt) and i.status is not IntentStatus.REFUSED]
    tries = [i for i in mine if i.kind is IntentKind.RELEASE]
    return Past(
        held=bool(now) and now[-1].kind is IntentKind.HOLD and now[-1].status is IntentStatus.DONE,
        releases=sum(1 for i in tries if i.status is IntentStatus.DONE),
        tries=len(tries),
        last=tries[-1] if tries else None,
    )


def _same_hold(backend: Backend, job: Job) -> None:
    """Raises NoInformation where the hold is another one by now, or nobody knows."""
    seen = backend.job(job.job_id)
    if seen is None or _plain(seen.reason) != _plain(job.reason):
        raise NoInformation(f"its hold is another one now ({seen.reason if seen else 'the job is gone'})")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
