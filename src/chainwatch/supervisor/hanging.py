"""Ending a job that hangs: a signal, a grace, a cancellation. Journaled first, and gone on with after any restart.

The intent is written before anything is done. From the signal on the job counts as ended by us, so that its end is read
as a hang. The signal is sent once; scancel, which may be said twice, is said again until the job is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from chainwatch.actions.tag import new_token
from chainwatch.config.models import Chain
from chainwatch.diagnosis.hang import Silence
from chainwatch.model.chain import Desired, EndJob, LeaveAlone
from chainwatch.model.job import Job, JobState
from chainwatch.recovery.hanging import end_or_leave
from chainwatch.slurm.backend import NoInformation, Refused
from chainwatch.store.records import ChainRecord, Intent, IntentKind, IntentStatus
from chainwatch.supervisor.probing import Book
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.traces import ENDED_BY_US, Traces

ENDING, SUSPECTS, CANCELLED = "ending", "suspects", "cancelled_at"
"""Facts of the chain's record: the attempt that an intent to end is about, which nodes are to blame, and when its scancel
was said."""
AGAIN = timedelta(minutes=1)
"""A job that still runs so long after scancel is cancelled again."""


class Hanging:
    """Ends hung jobs for one house."""

    def __init__(self, traces: Traces) -> None:
        self.house = traces.house
        self.traces = traces

    def decide(
        self, record: ChainRecord, settings: Chain, job: Job, silence: Silence, book: Book
    ) -> EndJob | LeaveAlone:
        """Whether this silent job is ended. Nothing is done here."""
        last = book.findings[-1].sentence if book.findings else ""
        decision = end_or_leave(
            job, settings.hang, silent=silence.silent, limit=silence.limit, looks=len(book.findings), named=book.named,
            why=f"{silence.sentence}; {last}",
        )  # fmt: skip
        if isinstance(decision, EndJob) and record.desired is not Desired.RUN:
            return LeaveAlone(f"a person wants it to {record.desired}")
        if isinstance(decision, EndJob) and record.target is not None and (record.step or 0) >= record.target:
            return LeaveAlone("its final step is reached: it may be about to end")
        if isinstance(decision, EndJob) and not self.house.may_act(record):
            return LeaveAlone(f"it would be ended ({self.house.why_not(record)}): {decision.why}")
        return decision

    def step(self, record: ChainRecord, job: Job, decision: EndJob | LeaveAlone | None, now: datetime) -> str:
        """Begin, or go on with, the end of a live job. What is being done, as a clause; empty if nothing is."""
        known = record.facts.get(ENDING) == str(job.attempt)  # a quiet tick asks the database nothing
        if not known and not isinstance(decision, EndJob):
            return ""
        before = self._intent(record, job)
        if before is not None and before.status in {IntentStatus.REFUSED, IntentStatus.DONE}:
            return "hangs, and could not be ended" if before.status is IntentStatus.REFUSED else ""
        intent = before if before is not None and before.status is IntentStatus.OPEN else None
        if intent is None:
            if not isinstance(decision, EndJob):
                return ""
            intent = self._begin(record, decision, now)
        if intent.tried_at is None:
            if not isinstance(decision, EndJob):
                self.house.store.close_intent(
                    self.house.lease, intent, IntentStatus.ABANDONED, now, note="not sent yet, and no longer called for"
                )
                return ""
            return self._signal(record, job, intent, now)
        return self._cancel(record, job, intent, now)

    def settle(self, record: ChainRecord, intent: Intent, scene: Scene, now: datetime) -> None:
        """Close the intent once its job is over; one that was never sent is over with its job, too."""
        attempt = intent.payload.get("attempt")
        if any(str(j.attempt) == attempt and not j.state.terminal for j in scene.jobs):
            return
        judged = any(str(a.job.attempt) == attempt and a.verdict for a in self.house.store.attempts(record.name))
        if not judged and not any(str(j.attempt) == attempt for j in (*scene.jobs, *scene.snapshot.records)):
            return  # gone from sight is not over
        status = IntentStatus.DONE if intent.tried_at else IntentStatus.ABANDONED
        self.house.store.close_intent(self.house.lease, intent, status, now, note="the job is over")

    def _intent(self, record: ChainRecord, job: Job) -> Intent | None:
        """The newest intent to end this attempt."""
        mine = (
            intent
            for intent in reversed(self.house.store.intents(record.name, last=20))
            if intent.kind is IntentKind.END and intent.payload.get("attempt") == str(job.attempt)
        )
        return next(mine, None)

    def _begin(self, record: ChainRecord, decision: EndJob, now: datetime) -> Intent:
        store, job = self.house.store, decision.job
        payload = {
            "attempt": str(job.attempt), "job_id": job.job_id, "why": decision.why, "signal": decision.signal,
            "grace": decision.grace.total_seconds(), "suspects": list(decision.suspects),
        }  # fmt: skip
        number = self.traces.number(record, job)
        sentence = f"ends job {job.shown_id}: {decision.why}"
        with store.transaction(self.house.lease):
            intent = store.begin_intent(self.house.lease, record.name, IntentKind.END, new_token(), payload, now)
            facts = {**self.traces.again(record).facts, ENDING: str(job.attempt)}
            self.house.store.update_chain(record.name, facts=facts)
            self.traces.write(record.name, number, decision, now, sentence)
            self.traces.owe(
                record, f"hung:{job.attempt}", "warning", f"{record.name}: the hung job {job.shown_id} is ended", now,
                why=decision.why, did=_plan(decision), command=f"chainwatch explain {record.name}",
            )  # fmt: skip
        self.house.say(sentence, record, {"decision": "end_job", "suspects": list(decision.suspects)})
        return intent

    def _signal(self, record: ChainRecord, job: Job, intent: Intent, now: datetime) -> str:
        signal = intent.payload.get("signal")
        with self.house.store.transaction(self.house.lease):
            intent = self.house.store.mark_tried(self.house.lease, intent, now)
            self._claim(record, job, intent)
        if signal is None:
            return self._cancel(record, job, intent, now)
        self.house.audit.note(now, "scancel", record.name, job=job.job_id, signal=signal, why=intent.payload["why"])
        try:
            self.house.backends[record.cluster].cancel(job.job_id, signal=str(signal))
        except Refused as no:
            return self._refused(record, job, intent, no, now)
        except NoInformation:
            pass  # it may have been sent: the cancellation follows in any case
        return f"is being ended as hung: SIG{signal} was sent"

    def _cancel(self, record: ChainRecord, job: Job, intent: Intent, now: datetime) -> str:
        assert intent.tried_at is not None, "the signal goes before"
        until = intent.tried_at + timedelta(seconds=float(intent.payload.get("grace", 0.0)))
        if now < until or not self.house.may_act(record):
            return f"is being ended as hung: SIG{intent.payload.get('signal')} was sent"
        said = self.traces.again(record).facts.get(CANCELLED)
        last = said.get("at") if isinstance(said, Mapping) and said.get("token") == intent.token else None
        fresh = last is not None and now - datetime.fromisoformat(str(last)) < AGAIN
        if fresh or job.state is JobState.COMPLETING:
            return "is being ended as hung: it was cancelled"
        self.house.audit.note(now, "scancel", record.name, job=job.job_id, why=intent.payload["why"])
        try:
            self.house.backends[record.cluster].cancel(job.job_id)
        except Refused as no:
            return self._refused(record, job, intent, no, now)
        except NoInformation as silence:
            return f"is being ended as hung: scancel gave no answer ({silence})"
        with self.house.store.transaction(self.house.lease):
            facts = self.traces.again(record).facts
            self.house.store.update_chain(
                record.name, facts={**facts, CANCELLED: {"token": intent.token, "at": now.isoformat()}}
            )
        return "is being ended as hung: it was cancelled"

    def _refused(self, record: ChainRecord, job: Job, intent: Intent, no: Refused, now: datetime) -> str:
        """Slurm said no: the job is not ended by us, and a person is told."""
        with self.house.store.transaction(self.house.lease):
            self.house.store.close_intent(self.house.lease, intent, IntentStatus.REFUSED, now, note=str(no))
            facts = dict(self.traces.again(record).facts)
            for name in (ENDED_BY_US, SUSPECTS):
                facts[name] = {k: v for k, v in dict(facts.get(name) or {}).items() if k != str(job.attempt)}
            self.house.store.update_chain(record.name, facts=facts)
            self.traces.owe(
                record, f"hung-refused:{job.attempt}", "critical", f"{record.name}: a hung job could not be ended", now,
                why=str(no), wants="end it, then let the chain go on", command=f"scancel {job.shown_id}",
            )  # fmt: skip
        return "hangs, and could not be ended"

    def _claim(self, record: ChainRecord, job: Job, intent: Intent) -> None:
        """From now on the job's end is ours. In the caller's transaction."""
        self.traces.with_note(record, ENDED_BY_US, job.attempt, intent.payload["why"])
        self.traces.with_note(record, SUSPECTS, job.attempt, intent.payload["suspects"])


def _plan(decision: EndJob) -> str:
    first = f"SIG{decision.signal} first, then after {decision.grace.total_seconds():.0f} s " if decision.signal else ""
    return f"{first}scancel; the chain goes on without {', '.join(decision.suspects)}"


__all__ = ["Hanging"]
