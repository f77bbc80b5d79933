"""From a decision to its effect and its trace: state, sentence, notice, intent."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from chainwatch.actions import aside, compose, kept, resume_file
from chainwatch.actions import submit as submission
from chainwatch.actions.tag import Tag, find, new_token, short_instance
from chainwatch.alerts.message import body
from chainwatch.config.models import Chain, HandOver
from chainwatch.model.chain import (
    Attempt,
    ChainState,
    Decision,
    FromCheckpoint,
    History,
    LeaveAlone,
    Mode,
    Rest,
    Resubmit,
    Stop,
    Wait,
)
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import Cause, Evidence, Outcome
from chainwatch.recovery import Situation, blamed, decide, over_before
from chainwatch.recovery.resume import avoided, choose
from chainwatch.slurm.backend import NoInformation, Refusal, Refused
from chainwatch.slurm.environment import EnvironmentUnusable
from chainwatch.store import IntentOpen
from chainwatch.store.codec import decision_kind
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Intent, IntentKind, IntentStatus, Origin
from chainwatch.supervisor import counting, judging
from chainwatch.supervisor.house import House
from chainwatch.supervisor.notices import kind_of
from chainwatch.supervisor.readers import Place, Silent

COMPLETING_SETTLE = timedelta(seconds=10)
"""While a job completes its writers are being killed; what has not changed for this long is not written any more."""


class Acting:
    """Carries decisions out for one house."""

    def __init__(self, house: House) -> None:
        self.house = house

    # -- what is allowed

    def may_act(self, record: ChainRecord) -> bool:
        return record.mode is Mode.ACT and not self.house.observe_only and not self.house.paused_by_site

    def _why_not(self, record: ChainRecord) -> str:
        if self.house.paused_by_site:
            return f"the site has paused all actions ({self.house.paused_by_site})"
        if self.house.observe_only:
            return "the daemon only observes (--observe)"
        return "mode observe"

    @staticmethod
    def directory(record: ChainRecord, settings: Chain) -> str:
        return str(settings.directory or record.facts.get("directory") or os.getcwd())

    # -- traces

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
        }
        facts = {k: v for k, v in current.facts.items() if k != "refused_until"} | {"expected": expected}
        if isinstance(array := facts.get("array"), Mapping):
            facts["array"] = {**array, "id": job_id}
        self.house.store.update_chain(chain, facts=facts)

    # -- after an attempt

    def remember(
        self, record: ChainRecord, settings: Chain, attempt: Attempt, evidence: Evidence, now: datetime
    ) -> ChainRecord:
        """Write down a judged attempt with all that follows from the verdict, in one commit."""
        store, verdict = self.house.store, attempt.verdict
        assert verdict is not None, "only judged attempts are remembered"
        facts = {k: v for k, v in record.facts.items() if k not in {"ended_seen", "vanished_since"}}
        with store.transaction(self.house.lease):
            store.put_attempt(record.name, attempt)
            store.put_evidence(record.name, attempt.number, evidence)
            for excluded in blamed(verdict, record.name, settings.recovery.nodes, now):
                store.exclude(excluded)
            earlier = [one for one in store.attempts(record.name) if one.number < attempt.number]
            counting.ended(store, record.name, attempt, earlier)
            changed = store.update_chain(
                record.name,
                facts=facts,
                step=_most(record.step, attempt.step_after),
                saved_step=_known(attempt.saved_after, record.saved_step),
                target=_known(evidence.progress.target, record.target),
            )
            if verdict.cause is Cause.CHECKPOINT_CORRUPT:
                self.owe(
                    record, f"corrupt:{attempt.number}", "info",
                    f"{record.name}: job {attempt.job.shown_id} died of a damaged checkpoint", now,
                    what=verdict.sentence, line=verdict.root_line or "",
                )  # fmt: skip
        self.house.say(
            f"attempt {attempt.number} (job {attempt.job.shown_id}) ended: {verdict.sentence}",
            changed,
            {"attempt": attempt.number, "cause": str(verdict.cause), "outcome": str(verdict.outcome)},
        )
        return changed

    def done(self, record: ChainRecord, last: Attempt, now: datetime) -> ChainRecord:
        verdict = last.verdict
        assert verdict is not None
        assert verdict.outcome is Outcome.DONE
        sentence = f"done: {verdict.sentence}" + (
            " (assumed: no `done:` rule is configured)" if verdict.assumed else ""
        )
        if record.state is ChainState.DONE:
            return record
        with self.house.store.transaction(self.house.lease):
            self.owe(
                record, f"done:{last.number}", "info", f"{record.name} is done", now,
                what=verdict.sentence, line=verdict.root_line or "",
                did=f"{last.number} attempts; nothing is submitted any more",
            )  # fmt: skip
            self._write(record.name, last.number, LeaveAlone(sentence), now, sentence)
            return self.state(record, ChainState.DONE, sentence, now)

    # -- the decision

    def decide_and_act(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        past: History,
        jobs: Sequence[Job],
        now: datetime,
    ) -> ChainRecord:
        last = past.attempts[-1] if past.attempts else None
        settle = judging.settle_after(last.job, settings) if last else timedelta(0)
        begun = self.house.clock.monotonic()
        report = self.house.readers.checkpoints(place, settle=settle)
        if isinstance(report, RunReport):
            for status, many in Counter(one.status.value for one in report.checkpoints).items():
                count(self.house.store, Counted.CHECKS, many, status=status)
            count(self.house.store, Counted.CHECK_SECONDS, self.house.clock.monotonic() - begun)
        decision = decide(
            Situation(
                settings=settings,
                history=past,
                checkpoints=report if isinstance(report, RunReport) else None,
                now=now,
                submissions_per_hour=self.house.config.submissions_per_hour,
            )
        )
        number = last.number if last else None
        if isinstance(decision, Resubmit):
            return self._resubmit(record, settings, place, past, decision, jobs, now)
        if isinstance(decision, Wait):
            return self._wait(record, decision, number, now)
        if isinstance(decision, (Rest, Stop)):
            return self._rest(record, decision, last, now)
        return self._decided(record, record.state, decision, number, decision.why, now)

    def _write(self, chain: str, number: int | None, decision: Decision, now: datetime, sentence: str) -> None:
        """Write down a decision; the same one again is neither written nor counted."""
        if self.house.store.add_decision(chain, number, decision, now, sentence):
            count(self.house.store, Counted.DECISIONS, decision=decision_kind(decision))

    def _wait(self, record: ChainRecord, decision: Wait, number: int | None, now: datetime) -> ChainRecord:
        same = record.state is ChainState.WAITING and record.sentence == decision.why
        if same and record.wait_until is not None and now < record.wait_until:
            return record
        if decision.needs_person:
            with self.house.store.transaction(self.house.lease):
                self.owe(
                    record, f"wait:{number}", "warning", f"{record.name} cannot go on by itself", now, why=decision.why,
                    wants="look at the storage and the job's old nodes",
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
        return self._decided(record, ChainState.WAITING, decision, number, decision.why, now, wait_until=decision.until)

    def _rest(self, record: ChainRecord, decision: Rest | Stop, last: Attempt | None, now: datetime) -> ChainRecord:
        state = ChainState.RESTING if isinstance(decision, Rest) else ChainState.STOPPED
        number = last.number if last else None
        verdict = last.verdict if last else None
        with self.house.store.transaction(self.house.lease):
            self.owe(
                record, f"{state}:{number}:{record.retried_at.isoformat() if record.retried_at else ''}", "critical",
                f"{record.name} is {state}: it needs you", now,
                what=verdict.sentence if verdict else "", why=decision.why, wants=decision.advice,
                line=(verdict.root_line if verdict else None) or "",
                command=f"chainwatch explain {record.name}",
            )  # fmt: skip
            return self._decided(record, state, decision, number, f"{decision.why}. {decision.advice}", now)

    def _decided(
        self,
        record: ChainRecord,
        state: ChainState,
        decision: Decision,
        number: int | None,
        sentence: str,
        now: datetime,
        **changes: Any,
    ) -> ChainRecord:
        if record.state is state and record.sentence == sentence:
            return self.state(record, state, sentence, now, **changes)  # said already
        with self.house.store.transaction(self.house.lease):
            self._write(record.name, number, decision, now, sentence)
            return self.state(record, state, sentence, now, **changes)

    # -- resubmission

    def _resubmit(
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
        commanded = self.house.lease is None and not self.house.paused_by_site
        if not commanded and not self.may_act(record):
            sentence = f"would resubmit ({self._why_not(record)}): {decision.why}"
            with self.house.store.transaction(self.house.lease):
                self.owe(
                    record, f"would:{number}", "warning", f"{record.name}: chainwatch would resubmit", now,
                    why=decision.why, wants="switch it on, or resubmit it yourself",
                    command=f"chainwatch mode {record.name} act",
                )  # fmt: skip
                return self._decided(record, ChainState.WAITING, decision, number, sentence, now)
        asked = last is not None and over_before(last, record.retried_at)
        grace = settings.resubmitter.grace if settings.resubmitter.by != "none" else settings.recovery.grace
        self.set_right(record, settings, place, now, None)
        if grace and last is not None and last.ended is not None and not asked:
            until = last.ended + grace
            if now < until:
                who = (
                    f"the {settings.resubmitter.by}'s own resubmission"
                    if settings.resubmitter.by != "none"
                    else "a grace"
                )
                wait = Wait(until, f"waits for {who} until {until:%H:%M:%S} UTC; then {decision.why}")
                return self._decided(record, ChainState.WAITING, wait, number, wait.why, now, wait_until=until)
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
            return self.state(record, ChainState.WAITING, f"the cluster {record.cluster} is not configured", now)
        try:
            pinned = settings.script == "pinned"
            script = record.pinned_script if pinned and record.pinned_script else str(settings.batch)
            text = self.house.read_script(script)
            if pinned and not record.pinned_script:
                script = str(kept.keep(self.house.state, record.name, text))
        except OSError as e:
            problem = f"the batch script {settings.batch} cannot be read: {e.strerror}"
            return self._rest(
                record, Stop(problem, f"bring it back, then `chainwatch retry {record.name}`."), last, now
            )
        try:
            environment = self.house.environment(record, settings)
        except EnvironmentUnusable as e:
            stop = Stop(
                f"the job's environment cannot be made: {e}", f"mend it, then `chainwatch retry {record.name}`."
            )
            return self._rest(record, stop, last, now)
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
            self._write(record.name, last.number if last else None, decision, now, sentence)
            intent = submission.begin(
                store,
                self.house.lease,
                record.name,
                tag.token,
                sbatch,
                {
                    "resume": resume,
                    "digest": digest,
                    "why": decision.why,
                    "by": "daemon" if self.house.lease else "command",
                },
                now,
            )
            record = store.update_chain(record.name, script_digest=digest, pinned_script=script if pinned else "")
            if last is not None and last.ours and not any(a.ours and a.number < last.number for a in past.attempts):
                self.owe(
                    record, "first-recovery", "info", f"{record.name}: first recovery", now,
                    what=last.verdict.sentence if last.verdict else "", did=sentence,
                )  # fmt: skip
            if edited:
                self.owe(
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

    def _carry_out(self, intent: Intent, backend: Any, now: datetime) -> submission.Outcome:
        def submitted(intent: Intent, job_id: int) -> None:
            self.expect(intent.chain, job_id, intent, now)
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
            return self.state(current, ChainState.PENDING, f"job {outcome.job_id} was submitted", now)
        if isinstance(outcome, submission.Uncertain):
            why = f"sbatch gave no answer ({outcome.why}); the job is looked up before anything else"
            return self.state(record, ChainState.RECOVERING, why, now)
        count(store, Counted.REFUSALS, calls_for=outcome.calls_for.value)
        if outcome.calls_for is Refusal.WAIT:
            until = now + timedelta(minutes=5)
            wait = Wait(until, f"Slurm refused the job for now: {outcome.why}")
            current = store.chain(record.name) or record
            facts = {**current.facts, "refused_until": until.isoformat()}
            return self._decided(record, ChainState.WAITING, wait, None, wait.why, now, wait_until=until, facts=facts)
        stop = Stop(f"Slurm refused the job: {outcome.why}", f"mend it, then `chainwatch retry {record.name}`.")
        attempts = store.attempts(record.name, last=1)
        return self._rest(record, stop, attempts[-1] if attempts else None, now)

    # -- checkpoints set right before somebody's next job starts

    def set_right(self, record: ChainRecord, settings: Chain, place: Place, now: datetime, ending: Job | None) -> None:
        """Make whatever the next job looks at name the newest intact checkpoint: the resume file, the pointer, and, where
        the configuration allows it, damaged checkpoints moved aside. `ending`: a job that is about to end still runs.
        """
        where = settings.checkpoints
        if where is None or record.mode is not Mode.ACT or not self.may_act(record):
            return
        attempts = self.house.store.attempts(record.name)
        over = [a for a in attempts if a.ended is not None]
        settle = judging.settle_after(over[-1].job, settings) if over else where.settle
        if ending is not None:
            settle = min(where.settle, COMPLETING_SETTLE)
        report = self.house.readers.checkpoints(place, settle=settle)
        if isinstance(report, Silent) or report is None:
            return
        choice = choose(settings, report, History(record.name, attempts))
        resume = getattr(choice, "resume", None)
        if resume is None:
            return
        path = compose.resume_path(resume)
        resume_file.write(resume_file.path_of(self.house.state, record.name), path)
        if not isinstance(resume, FromCheckpoint) or where.hand_over not in {HandOver.POINTER, HandOver.SET_ASIDE}:
            return
        try:
            if where.hand_over is HandOver.SET_ASIDE:
                for bad in choice.newer_bad:  # type: ignore[union-attr]
                    self.house.audit.note(now, "set_aside", record.name, path=bad.path, why=bad.reason)
                    aside.set_aside(self.house.store, bad, record.name, bad.reason, now)
                    self.house.say(f"{os.path.basename(bad.path)} was moved aside: {bad.reason}", record, {})
            moved = aside.mend_pointer(
                self.house.store, str(report.path), resume.checkpoint, record.name, "names the newest intact step", now
            )
            if moved is not None:
                self.house.audit.note(now, "pointer", record.name, path=moved.path, content=moved.target)
                self.house.say(f"{os.path.basename(moved.path)} names {moved.target} again", record, {})
        except aside.MoveError as e:
            with self.house.store.transaction(self.house.lease):
                self.owe(
                    record,
                    f"move:{e}",
                    "warning",
                    f"{record.name}: a checkpoint could not be set right",
                    now,
                    why=str(e),
                )

    # -- other effects

    def cancel_pending(self, record: ChainRecord, job: Job, why: str, now: datetime) -> None:
        """Cancel our own job, only as long as it is pending."""
        if not self.may_act(record) or find(job.comment) is None:
            return
        store, lease = self.house.store, self.house.lease
        ended = record.facts.get("ended_by_us")
        with store.transaction(lease):
            intent = store.begin_intent(lease, record.name, IntentKind.CANCEL, new_token(), asdict(job.attempt) | {
                "submitted": job.attempt.submitted.isoformat(), "why": why,
            }, now)  # fmt: skip
            current = store.chain(record.name) or record
            store.update_chain(
                record.name,
                facts={
                    **current.facts,
                    "ended_by_us": {**(ended if isinstance(ended, dict) else {}), str(job.attempt): why},
                },
            )
        self.house.audit.note(now, "scancel", record.name, job=job.job_id, why=why)
        try:
            self.house.backends[record.cluster].cancel(job.job_id, pending_only=True)
        except (Refused, NoInformation) as e:
            store.close_intent(lease, intent, IntentStatus.REFUSED, now, note=str(e))
            return
        store.close_intent(lease, intent, IntentStatus.DONE, now, job_id=job.job_id)
        self.house.say(f"our own pending job {job.shown_id} is cancelled: {why}", record, {})


def _remembered(last: Attempt | None, jobs: Sequence[Job]) -> str | None:
    """The last job, if the controller still lists it: sbatch refuses a dependency on a purged job."""
    if last is None or not any(j.job_id == last.job.job_id for j in jobs):
        return None
    return last.job.shown_id if last.job.array_task is not None else str(last.job.job_id)


def _most(a: int | None, b: int | None) -> int | None:
    return max((x for x in (a, b) if x is not None), default=None)


def _known(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


__all__ = ["Acting"]
