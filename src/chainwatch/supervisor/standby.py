"""The standby: the next job of a chain, queued behind the present one so that its place in the queue is not lost.

What it is stands in its intent: behind which attempt it waits, and with which options. It is no attempt of the chain before
it takes over; then the end of the job before it may still call for something else, and it is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from chainwatch.actions import submit as submission
from chainwatch.actions.tag import find
from chainwatch.config.models import Chain
from chainwatch.model.chain import Decision, Desired, History, LeaveAlone, Rest, Resubmit, Stop
from chainwatch.model.job import Job, JobState
from chainwatch.recovery import decide_ahead
from chainwatch.recovery.avoid import may_condemn
from chainwatch.slurm.backend import Refusal
from chainwatch.store.records import ChainRecord, Intent, IntentKind, IntentStatus
from chainwatch.supervisor import history
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.preparing import prepare
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.scene import Scene, ours
from chainwatch.supervisor.traces import ENDED_BY_US

REFUSED_PAUSE = timedelta(hours=1)
"""How long a standby that Slurm refused is not asked for again: the chain lives without one."""
_RECENT = 20
_UNWANTED = {
    Desired.PAUSE: "the chain is paused",
    Desired.STOP: "the chain is stopped",
    Desired.DONE: "the chain is done by a person's word",
}


class Standby:
    """Keeps the standbys of one house's chains."""

    def __init__(self, acting: Acting) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces

    # -- which job is one

    def behind(self, record: ChainRecord, live: Sequence[Job]) -> Job | None:
        """The pending job of ours that waits behind another of these."""
        if len(live) < 2:
            return None
        ids = {j.job_id for j in live}
        for job in live:
            intent = self._intent(record, job) if not job.state.on_nodes else None
            if intent is not None and intent.payload["standby"]["job"] in ids - {job.job_id}:
                return job
        return None

    def no_attempt(self, record: ChainRecord, job: Job, jobs: Sequence[Job]) -> bool:
        """A standby that has not begun is no attempt: as long as another job of the chain lives, or where we cancelled
        it."""
        if job.start is not None or job.state.on_nodes or self._intent(record, job) is None:
            return False
        others = any(not j.state.terminal for j in jobs if j is not job)
        return others or (job.state.terminal and str(job.attempt) in (record.facts.get(ENDED_BY_US) or {}))

    def _intent(self, record: ChainRecord, job: Job) -> Intent | None:
        tag = find(job.comment) if ours(job, record) else None
        intent = self.house.store.intent_by_token(tag.token) if tag is not None else None
        if intent is None or "standby" not in intent.payload or intent.job_id not in {None, job.job_id}:
            return None
        return intent

    # -- while the job before it lives

    def keep(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        job: Job,
        standby: Job | None,
        scene: Scene,
        now: datetime,
    ) -> str:
        """See that a standby waits behind `job` where one is wanted, and none where not; what is to be said of it."""
        if standby is not None:
            why = _UNWANTED.get(record.desired) or self._being_ended(record)
            why = why or self._ended_by_policy(record, settings, now)
            if not why:
                return f"; job {standby.shown_id} stands by"
            if self.acting.cancelling.cancel_pending(record, standby, why, now):
                self.traces.without_fact(self.traces.again(record), "expected")
            return ""
        if _gone(record, scene):
            record = self.traces.without_fact(record, "expected")
        if not self._due(record, settings, job, now):
            return ""
        past = history.of(self.house, record, now, incident=scene.incident, cohorts=scene.cohorts)
        if any(a.verdict is None and a.job.attempt != job.attempt for a in past.attempts):
            return ""  # what the job before ended of is not known yet
        decision = self.ahead(record, settings, past, now)
        if not isinstance(decision, Resubmit):
            return ""
        return self.queue(record, settings, place, past, decision, job, now)

    def _due(self, record: ChainRecord, settings: Chain, job: Job, now: datetime) -> bool:
        if not settings.standby or record.desired is not Desired.RUN or not self.house.may_act(record):
            return False
        if job.state is not JobState.RUNNING or job.preempted_at is not None:
            return False
        if "expected" in record.facts or "array" in record.facts:
            return False
        if record.target is not None and record.step is not None and record.step >= record.target:
            return False
        return not self.made(record, job, now)

    def made(self, record: ChainRecord, job: Job, now: datetime) -> bool:
        """One was queued behind this attempt already (a person may have cancelled it), or its outcome is not known."""
        recent = self.house.store.intents(record.name, last=_RECENT)
        by_us = {
            i.payload.get("job_id") for i in recent if i.kind is IntentKind.CANCEL and i.status is IntentStatus.DONE
        }
        for intent in recent:
            if intent.status is IntentStatus.OPEN:
                return True  # a submission without an answer, or the present job is being ended
            if intent.kind is not IntentKind.SUBMIT:
                continue
            if intent.payload.get("standby", {}).get("after") != str(job.attempt):
                continue
            if intent.status is IntentStatus.DONE and intent.job_id not in by_us:
                return True
            if intent.status is IntentStatus.REFUSED and now - (intent.closed or now) < REFUSED_PAUSE:
                return True
        return False

    def ahead(self, record: ChainRecord, settings: Chain, past: History, now: datetime) -> Decision:
        """What the present job's end would be followed by, as far as is known now."""
        report = None
        if settings.checkpoints is not None and may_condemn(settings, past):
            place = Place(record.name, settings, self.acting.directory(record, settings))
            report = self.house.readers.checkpoints(place, settle=settings.checkpoints.settle)
        return decide_ahead(self.acting.situation(record, settings, past, report, now))

    def _being_ended(self, record: ChainRecord) -> str:
        """The present job hangs and is being ended: the next one keeps away from its nodes, which is not known yet."""
        ending = any(i.kind is IntentKind.END for i in self.house.store.open_intents(record.name))
        return "the job before it is being ended" if ending else ""

    def _ended_by_policy(self, record: ChainRecord, settings: Chain, now: datetime) -> str:
        """Why the chain would not go on after the present job, as far as is known now; empty if it would."""
        past = replace(history.of(self.house, record, now), submissions_last_hour=0)
        decision = self.ahead(record, settings, past, now)
        return decision.why if isinstance(decision, (Rest, Stop)) else ""

    def queue(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        past: History,
        decision: Resubmit,
        job: Job,
        now: datetime,
        by: str = "daemon",
    ) -> str:
        """Submit a job that starts after `job`; what is to be said of it. What a person must mend is told when the chain
        needs its next job."""
        store, lease = self.house.store, self.house.lease
        backend = self.house.backends.get(record.cluster)
        prepared = prepare(self.house, record, settings, place, past, decision, str(job.job_id))
        if backend is None or isinstance(prepared, (Stop, Silent)):
            return ""
        stands: dict[str, Any] = {
            "after": str(job.attempt),
            "job": job.job_id,
            "exclude": list(decision.exclude),
            "extra": list(decision.extra),
            "avoid": list(prepared.avoid),
        }
        facts = {"digest": prepared.digest, "image": prepared.image, "why": "standby", "by": by, "standby": stands}
        intent = submission.begin(store, lease, record.name, prepared.token, prepared.submission, facts, now)
        outcome = self.acting.submitting.carry_out(intent, backend, now)
        if isinstance(outcome, submission.Submitted):
            self.house.say(f"job {outcome.job_id} stands by behind job {job.shown_id}", record, {"standby": True})
            return f"; job {outcome.job_id} stands by"
        if isinstance(outcome, submission.RefusedBySlurm):
            later = "asked again later" if outcome.calls_for is Refusal.WAIT else "the chain lives without one"
            self.house.say(f"Slurm refused a standby ({outcome.why}): {later}", record, {"standby": False})
        return ""

    # -- once it is the chain's only live job

    def surplus(self, record: ChainRecord, settings: Chain, job: Job, scene: Scene, now: datetime) -> str:
        """Cancel a standby that the end of the job before it left no use for; why, or empty.

        One that has begun goes on, whatever the verdict, unless the chain is done.
        """
        attempts = history.without_duplicates(self.house.store.attempts(record.name), record)
        before = tuple(a for a in attempts if a.job.attempt != job.attempt)
        last = before[-1] if before else None
        if last is None or last.verdict is None or job.state is JobState.COMPLETING:
            return ""
        done = history.is_done(last, record)
        if job.state.on_nodes and not done:
            return ""
        intent = self._intent(record, job)
        if intent is None:
            return ""
        past = replace(
            history.of(self.house, record, now, incident=scene.incident, cohorts=scene.cohorts),
            attempts=before,
            submissions_last_hour=0,
        )
        why = history.SURPLUS if done else _UNWANTED.get(record.desired, "")
        why = why or _differs(self.ahead(record, settings, past, now), intent.payload["standby"], past)
        if why and self.acting.cancelling.cancel(record, job, why, now, pending_only=not done):
            self.traces.without_fact(self.traces.again(record), "expected")
            return why
        return ""


def _differs(decision: Decision, stands: Mapping[str, Any], past: History) -> str:
    """Why this decision asks for something else than the standby that is queued; empty if it is just that job."""
    if isinstance(decision, LeaveAlone):
        return ""
    if not isinstance(decision, Resubmit):
        return decision.why if hasattr(decision, "why") else "something else is to be done"
    if not set(decision.exclude) <= set(stands["exclude"]):
        return f"the next job keeps away from {', '.join(decision.exclude)}"
    if set(decision.avoid) != set(stands["avoid"]):
        return "the next job keeps away from other checkpoints than this one"
    if list(decision.extra) != stands["extra"]:
        return "the next job gets other options"
    return ""


def _gone(record: ChainRecord, scene: Scene) -> bool:
    """The standby that is expected ended without ever beginning: a person cancelled it."""
    expected = record.facts.get("expected")
    wanted = expected.get("job_id") if isinstance(expected, Mapping) else None
    seen = [j for j in (*scene.jobs, *scene.snapshot.records) if j.job_id == wanted]
    return bool(seen) and all(j.state.terminal and j.start is None for j in seen)
