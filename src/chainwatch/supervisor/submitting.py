"""From the decision to resubmit to a job: whether it may be done now, the intent, sbatch, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from chainwatch.actions import compose, resume_file
from chainwatch.actions import submit as submission
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, ChainState, History, Resubmit, Stop, Wait
from chainwatch.model.job import Job
from chainwatch.recovery import over_before
from chainwatch.recovery.decide import WRITER_PATIENCE
from chainwatch.slurm.backend import Backend, Refusal
from chainwatch.store import IntentOpen
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Intent, IntentStatus
from chainwatch.supervisor.house import House
from chainwatch.supervisor.preparing import again, prepare
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.setting_right import SettingRight
from chainwatch.supervisor.traces import Traces


class Submitting:
    """Submits the next job of a chain."""

    def __init__(self, house: House, traces: Traces, right: SettingRight) -> None:
        self.house = house
        self.traces = traces
        self._right = right

    def resubmit(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        past: History,
        decision: Resubmit,
        jobs: Sequence[Job],
        now: datetime,
    ) -> ChainRecord:
        last = past.attempts[-1] if past.attempts else None
        number = last.number if last else None
        commanded = self.house.lease is None and not self.house.held_back_by_site(record)
        if not commanded and not self.house.may_act(record):
            sentence = f"would resubmit ({self.house.why_not(record)}): {decision.why}"
            forbidden = bool(self.house.held_back_by_site(record))
            with self.house.store.transaction(self.house.lease):
                if not self.house.paused_by_site:  # which is told for all chains at once
                    self.traces.owe(
                        record, f"would:{number}", "warning", f"{record.name}: chainwatch would resubmit", now,
                        why=decision.why,
                        wants=f"resubmit it yourself: {self.house.why_not(record)}" if forbidden
                        else "switch it on, or resubmit it yourself",
                        command=f"chainwatch explain {record.name}" if forbidden
                        else f"chainwatch mode {record.name} act",
                    )  # fmt: skip
                return self.traces.decided(record, ChainState.WAITING, decision, number, sentence, now)
        asked = last is not None and over_before(last, record.retried_at)
        grace = settings.resubmitter.grace if settings.resubmitter.by != "none" else settings.recovery.grace
        silent = self._right.set_right(record, settings, place, now, None)
        if grace and last is not None and last.ended is not None and not asked:
            until = last.ended + grace
            if now < until:
                who = (
                    f"the {settings.resubmitter.by}'s own resubmission"
                    if settings.resubmitter.by != "none"
                    else "a grace"
                )
                wait = Wait(until, f"waits for {who} until {until:%H:%M:%S} UTC; then {decision.why}")
                return self.traces.decided(record, ChainState.WAITING, wait, number, wait.why, now, wait_until=until)
        if silent:
            return self._wait_for_storage(record, last, f"its checkpoints cannot be set right yet: {silent}", now)
        return self._submit(record, settings, place, past, decision, jobs, now)

    def _wait_for_storage(self, record: ChainRecord, last: Attempt | None, why: str, now: datetime) -> ChainRecord:
        """Nothing is submitted that might find a damaged checkpoint; after a while a person is told."""
        number = last.number if last else None
        late = last is not None and last.ended is not None and now - last.ended > WRITER_PATIENCE
        with self.house.store.transaction(self.house.lease):
            if late:
                self.traces.owe(
                    record, f"wait:storage:{number}", "warning", f"{record.name}: its storage does not answer", now,
                    why=why, wants="look at the storage; chainwatch goes on by itself once it answers",
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
            wait = Wait(now + timedelta(minutes=1), why, needs_person=late)
            return self.traces.decided(record, ChainState.WAITING, wait, number, why, now, wait_until=wait.until)

    def _submit(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        past: History,
        decision: Resubmit,
        jobs: Sequence[Job],
        now: datetime,
    ) -> ChainRecord:
        store = self.house.store
        last = past.attempts[-1] if past.attempts else None
        backend = self.house.backends.get(record.cluster)
        if backend is None:
            return self.traces.state(record, ChainState.WAITING, f"the cluster {record.cluster} is not configured", now)
        prepared = prepare(self.house, record, settings, place, past, decision, _remembered(last, jobs))
        if isinstance(prepared, Silent):
            return self._wait_for_storage(record, last, f"the batch script cannot be read yet: {prepared.why}", now)
        if isinstance(prepared, Stop):
            return self.traces.rest(record, prepared, last, now)
        digest, resume = prepared.digest, compose.resume_path(decision.resume)
        edited = bool(record.script_digest) and digest != record.script_digest
        resume_file.write(resume_file.path_of(self.house.state, record.name), compose.handed_over(settings, resume))
        sentence = f"resubmits: {decision.why}" if last else f"submits the first job: {decision.why}"
        with store.transaction(self.house.lease):
            if self.house.lease is None and any(i.status is IntentStatus.DONE for i in store.intents(record.name)):
                raise IntentOpen(f"{record.name} was submitted a moment ago: `chainwatch status` shows its job")
            self.traces.write(record.name, last.number if last else None, decision, now, sentence)
            intent = submission.begin(
                store,
                self.house.lease,
                record.name,
                prepared.token,
                prepared.submission,
                {
                    "resume": resume,
                    "digest": digest,
                    "image": prepared.image,
                    "why": decision.why,
                    "by": "daemon" if self.house.lease else "command",
                },
                now,
            )
            record = store.update_chain(record.name, script_digest=digest, pinned_script=prepared.pinned)
            if last is not None and last.ours and not any(a.ours and a.number < last.number for a in past.attempts):
                self.traces.owe(
                    record, "first-recovery", "info", f"{record.name}: first recovery", now,
                    what=last.verdict.sentence if last.verdict else "", did=sentence,
                )  # fmt: skip
            if edited:
                self.traces.owe(
                    record, f"edited:{digest[7:19]}", "info", f"{record.name}: the batch script was edited", now,
                    why="this submission uses it as it is now (script: live)",
                )  # fmt: skip
        self.house.say(sentence, record, {"decision": "resubmit", "exclude": list(decision.exclude)})
        return self._after_try(record, intent, self.carry_out(intent, backend, now), now)

    def try_again(self, record: ChainRecord, intent: Intent, now: datetime) -> str | None:
        """Submit an intent again whose token is surely absent. The reason why it stays open, or None."""
        backend = self.house.backends[record.cluster]
        self.house.say("the submission never reached the controller: it is made again", record, {})
        outcome = self.carry_out(intent, backend, now)
        self._after_try(record, intent, outcome, now)
        return outcome.why if isinstance(outcome, submission.Uncertain) else None

    def carry_out(self, intent: Intent, backend: Backend, now: datetime) -> submission.Outcome:
        """Try an open intent; its job is looked for from then on."""

        def submitted(intent: Intent, job_id: int) -> None:
            self.traces.expect(intent.chain, job_id, intent, now)
            kind = "recovery" if self.house.store.attempts(intent.chain, last=1) else "first"
            kind = "standby" if "standby" in intent.payload else kind
            count(self.house.store, Counted.SUBMISSIONS, chain=intent.chain, kind=kind)

        return submission.carry_out(
            self.house.store, self.house.lease, self.house.audit, backend, intent, now, submitted
        )

    def _after_try(
        self, record: ChainRecord, intent: Intent, outcome: submission.Outcome, now: datetime
    ) -> ChainRecord:
        store = self.house.store
        if isinstance(outcome, submission.Submitted):
            current = store.chain(record.name) or record
            return self.traces.state(current, ChainState.PENDING, f"job {outcome.job_id} was submitted", now)
        if isinstance(outcome, submission.Uncertain):
            why = f"sbatch gave no answer ({outcome.why}); the job is looked up before anything else"
            return self.traces.state(record, ChainState.RECOVERING, why, now)
        count(store, Counted.REFUSALS, calls_for=outcome.calls_for.value)
        if outcome.calls_for is Refusal.WAIT:
            until = now + timedelta(minutes=5)
            wait = Wait(until, f"Slurm refused the job for now: {outcome.why}")
            current = store.chain(record.name) or record
            facts = {**current.facts, "refused_until": until.isoformat()}
            return self.traces.decided(
                record, ChainState.WAITING, wait, None, wait.why, now, wait_until=until, facts=facts
            )
        last = next(iter(store.attempts(record.name, last=1)), None)
        why = outcome.why.removeprefix("sbatch was refused: ")
        stop = Stop(f"Slurm refused the job: {why}", f"mend it, then `chainwatch {again(last)} {record.name}`.")
        return self.traces.rest(record, stop, last, now)


def _remembered(last: Attempt | None, jobs: Sequence[Job]) -> str | None:
    """The last job, if the controller still lists it: a dependency on a forgotten one holds nothing."""
    if last is None or not any(j.job_id == last.job.job_id for j in jobs):
        return None
    return last.job.shown_id if last.job.array_task is not None else str(last.job.job_id)
