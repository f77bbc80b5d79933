"""From the decision to resubmit to a job: whether it may be done now, the intent, sbatch, and its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from chainwatch.actions import compose, kept, resume_file
from chainwatch.actions import submit as submission
from chainwatch.actions.image import container_image
from chainwatch.actions.tag import Tag, new_token, short_instance
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, ChainState, History, Resubmit, Stop, Wait
from chainwatch.model.job import Job
from chainwatch.recovery import over_before
from chainwatch.recovery.resume import avoided
from chainwatch.slurm.backend import Backend, Refusal
from chainwatch.slurm.environment import EnvironmentUnusable
from chainwatch.store import IntentOpen
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Intent, IntentStatus, Origin
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place
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
                self.traces.owe(
                    record, f"would:{number}", "warning", f"{record.name}: chainwatch would resubmit", now,
                    why=decision.why,
                    wants=f"resubmit it yourself: {self.house.why_not(record)}" if forbidden
                    else "switch it on, or resubmit it yourself",
                    command=f"chainwatch explain {record.name}" if forbidden else f"chainwatch mode {record.name} act",
                )  # fmt: skip
                return self.traces.decided(record, ChainState.WAITING, decision, number, sentence, now)
        asked = last is not None and over_before(last, record.retried_at)
        grace = settings.resubmitter.grace if settings.resubmitter.by != "none" else settings.recovery.grace
        self._right.set_right(record, settings, place, now, None)
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
        return self._submit(record, settings, place, past, decision, jobs, now)

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
        try:
            pinned = settings.script == "pinned"
            script = record.pinned_script if pinned and record.pinned_script else str(settings.batch)
            text = self.house.read_script(script)
            if pinned and not record.pinned_script:
                script = str(kept.keep(self.house.state, record.name, text))
        except OSError as e:
            problem = f"the batch script {settings.batch} cannot be read: {e.strerror}"
            return self.traces.rest(
                record, Stop(problem, f"bring it back, then `chainwatch retry {record.name}`."), last, now
            )
        try:
            environment = self.house.environment(record, settings)
        except EnvironmentUnusable as e:
            stop = Stop(
                f"the job's environment cannot be made: {e}", f"mend it, then `chainwatch retry {record.name}`."
            )
            return self.traces.rest(record, stop, last, now)
        digest = compose.digest(text)
        edited = bool(record.script_digest) and digest != record.script_digest
        tag = Tag(short_instance(store.instance), record.name, new_token())
        resume = compose.resume_path(decision.resume)
        array = record.facts.get("array")
        shown = text.decode(errors="replace")
        order = compose.Order(
            tag=tag,
            script=script,
            script_text=shown,
            directory=place.directory,
            environment=dict(environment),
            resume=decision.resume,
            resume_file=str(resume_file.path_of(self.house.state, record.name)),
            exclude=decision.exclude,
            extra=decision.extra,
            avoid=tuple(sorted(avoided(past))),
            previous=_remembered(last, jobs),
            singleton=record.origin is Origin.CONFIG and compose.job_name(settings, shown) == record.name,
            first=last is None or last.job.start is None,
            umask=int(record.facts.get("umask", 0o022)),
            array_task=str(array["task"]) if isinstance(array, Mapping) and array.get("task") is not None else None,
            job_name=os.path.basename(str(settings.batch)) if script != str(settings.batch) else None,
        )
        sbatch = compose.compose(settings, order)
        resume_file.write(resume_file.path_of(self.house.state, record.name), resume)
        sentence = f"resubmits: {decision.why}" if last else f"submits the first job: {decision.why}"
        with store.transaction(self.house.lease):
            if self.house.lease is None and any(i.status is IntentStatus.DONE for i in store.intents(record.name)):
                raise IntentOpen(f"{record.name} was submitted a moment ago: `chainwatch status` shows its job")
            self.traces.write(record.name, last.number if last else None, decision, now, sentence)
            intent = submission.begin(
                store,
                self.house.lease,
                record.name,
                tag.token,
                sbatch,
                {
                    "resume": resume,
                    "digest": digest,
                    "image": container_image(shown, [*settings.sbatch, *decision.extra], dict(environment)),
                    "why": decision.why,
                    "by": "daemon" if self.house.lease else "command",
                },
                now,
            )
            record = store.update_chain(record.name, script_digest=digest, pinned_script=script if pinned else "")
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
        return self._after_try(record, intent, self._carry_out(intent, backend, now), now)

    def try_again(self, record: ChainRecord, intent: Intent, now: datetime) -> str | None:
        """Submit an intent again whose token is surely absent. The reason why it stays open, or None."""
        backend = self.house.backends[record.cluster]
        self.house.say("the submission never reached the controller: it is made again", record, {})
        outcome = self._carry_out(intent, backend, now)
        self._after_try(record, intent, outcome, now)
        return outcome.why if isinstance(outcome, submission.Uncertain) else None

    def _carry_out(self, intent: Intent, backend: Backend, now: datetime) -> submission.Outcome:
        def submitted(intent: Intent, job_id: int) -> None:
            self.traces.expect(intent.chain, job_id, intent, now)
            kind = "recovery" if self.house.store.attempts(intent.chain, last=1) else "first"
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
        stop = Stop(f"Slurm refused the job: {outcome.why}", f"mend it, then `chainwatch retry {record.name}`.")
        attempts = store.attempts(record.name, last=1)
        return self.traces.rest(record, stop, attempts[-1] if attempts else None, now)


def _remembered(last: Attempt | None, jobs: Sequence[Job]) -> str | None:
    """The last job, if the controller still lists it: sbatch refuses a dependency on a purged job."""
    if last is None or not any(j.job_id == last.job.job_id for j in jobs):
        return None
    return last.job.shown_id if last.job.array_task is not None else str(last.job.job_id)
