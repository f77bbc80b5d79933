"""One step of one chain: compare what should be true with what is, and do the next thing.

The step is level-triggered. It reads the store and the snapshot, never its own memory, so that a daemon that was killed at
any line goes on from there without a special path. Its order:

    open submissions -> jobs seen -> two live jobs? -> a live job: look after it
                                                   -> none: has the last attempt ended? -> judge it -> decide -> act
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.actions import submit as submission
from chainwatch.actions.tag import find
from chainwatch.config.models import Chain
from chainwatch.diagnosis.hang import Watch
from chainwatch.model.chain import Attempt, ChainState, Desired
from chainwatch.model.job import Job, JobState, Snapshot, Source
from chainwatch.model.verdict import Outcome
from chainwatch.recovery import needs_person, over_before
from chainwatch.store.records import ChainRecord, Intent, IntentKind, IntentStatus
from chainwatch.supervisor import ends, history, judging, watching
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place, Silent

VANISHED_ALERT = timedelta(minutes=15)
"""How long a job may be in neither squeue nor sacct before a person is told; it is asked for all the same."""
CLOCKS_DIFFER = timedelta(minutes=10)
"""A job that was submitted this long before our sbatch is an older one of the same id."""
CHECKING_BOUND = timedelta(minutes=5)
"""How long an end may stay unjudged because files or accounting do not answer."""
STEPS_BOUND = timedelta(minutes=2)
"""How long to wait for accounting's steps, once the controller says that a job ended."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What this tick knows of one chain."""

    snapshot: Snapshot
    jobs: tuple[Job, ...]
    """Jobs of the queue that belong to the chain, oldest submission first."""
    incident: str = ""
    cohort: str = ""
    watches: Mapping[str, Watch] = field(default_factory=dict)
    """The watches of all running chains, as they were before this tick: many that fall silent at once are no hangs."""
    accounting: bool = True
    """False: the site has no accounting, so waiting for it is vain."""


class ChainStep:
    """Takes steps for the chains of one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.acting = Acting(house)

    def take(self, record: ChainRecord, scene: Scene) -> ChainRecord:
        """Take the next step for this chain. Raises LeaseLost and StoreError; everything else is this chain's alone."""
        now = self.house.clock.now()
        settings = Chain.model_validate(record.settings)
        place = Place(record.name, settings, self.acting.directory(record, settings))
        record = self._wishes(record, now)
        record = self._meet(record, scene, now)
        open_submission = self._settle_intents(record, scene, now)
        record = self._again(record)
        live = tuple(j for j in scene.jobs if not j.state.terminal)
        if live:
            return self._look_after(record, settings, place, live, scene, now)
        if open_submission is not None:
            return self._state(
                record,
                ChainState.RECOVERING,
                f"the outcome of a submission is being looked up: {open_submission}",
                now,
            )
        if not scene.snapshot.knows(Source.QUEUE):
            return record  # nothing may be concluded; what was true stays as it is
        return self._after(self._nobody_runs(record, now), settings, place, scene, now)

    # -- what people want

    def _wishes(self, record: ChainRecord, now: datetime) -> ChainRecord:
        if record.desired is Desired.PAUSE and record.desired_until is not None and now >= record.desired_until:
            with self.house.store.transaction(self.house.lease):
                self.house.store.update_chain(record.name, desired=Desired.RUN, desired_until=None)
                self.acting.owe(
                    record, f"pause-over:{record.desired_until.isoformat()}", "info",
                    f"{record.name}: the pause is over", now, why=record.desired_why or "it was asked for this long",
                    did="chainwatch looks after the chain again",
                )  # fmt: skip
            return self._again(record)
        return record

    # -- submissions whose outcome is not known

    def _settle_intents(self, record: ChainRecord, scene: Scene, now: datetime) -> str | None:
        """Close what can be closed; the reason why one stays open, or None."""
        waiting = None
        for intent in self.house.store.open_intents(record.name):
            if intent.kind is not IntentKind.SUBMIT:
                self.house.store.close_intent(
                    self.house.lease, intent, IntentStatus.ABANDONED, now, note="interrupted; decided anew"
                )
                continue
            waiting = self._settle(record, intent, scene, now) or waiting
        return waiting

    def _settle(self, record: ChainRecord, intent: Intent, scene: Scene, now: datetime) -> str | None:
        store, lease = self.house.store, self.house.lease
        if intent.tried_at is None:
            if now - intent.created < self.house.settle and intent.payload.get("by") == "command":
                return "a command is about to submit it"
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="never tried; decided anew")
            return None
        answer = submission.look_up(intent, scene.snapshot, now, self.house.settle)
        if isinstance(answer, submission.Found):
            with store.transaction(lease):
                store.close_intent(lease, intent, IntentStatus.DONE, now, job_id=answer.job.job_id, note="found again")
                self.acting.expect(record.name, answer.job.job_id, intent, now)
            self.house.say(f"job {answer.job.shown_id} of a doubtful submission was found and adopted", record, {})
            return None
        if isinstance(answer, submission.StillOpen):
            if answer.counts:
                store.note_absent(intent, now)
            return answer.why
        if record.desired is not Desired.RUN or not self.acting.may_act(record):
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="surely absent, and no longer wanted")
            return None
        if any(not j.state.terminal for j in scene.jobs):
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="surely absent; another job lives")
            return None
        store.note_absent(intent, now)
        return self.acting.try_again(record, intent, now)

    # -- attempts

    def _meet(self, record: ChainRecord, scene: Scene, now: datetime) -> ChainRecord:
        """Write down every attempt that the queue shows."""
        store = self.house.store
        attempts = store.attempts(record.name)
        for job in scene.jobs:
            if job.array_task is not None and job.state is JobState.PENDING and job.job_id == job.array_job_id:
                continue  # the rest of an array has no identity of its own yet
            known = next((a for a in attempts if a.job.attempt == job.attempt), None)
            if known is not None and known.ended is not None:
                continue
            attempt = history.met(attempts, job, record, ours=_ours(job, record))
            changes: dict[str, Any] = {}
            expected = record.facts.get("expected")
            if isinstance(expected, Mapping) and expected.get("job_id") in {job.job_id, job.array_job_id}:
                changes["facts"] = {k: v for k, v in record.facts.items() if k not in {"expected", "vanished_since"}}
                if known is None:
                    digest = str(expected.get("digest") or attempt.script_digest)
                    attempt = replace(attempt, resumed_from=expected.get("resume"), script_digest=digest)
            if known is not None and attempt == known:
                continue
            if known is None:
                changes["grace_until"] = None
            with store.transaction(self.house.lease):
                store.put_attempt(record.name, attempt)
                if changes:
                    store.update_chain(record.name, **changes)
            record = self._again(record) if changes else record
            attempts = store.attempts(record.name)
            if known is None and not job.state.terminal:
                self.house.say(
                    f"attempt {attempt.number} is job {job.shown_id} ({job.state.lower()})"
                    + ("" if attempt.ours else ", submitted by somebody else and adopted"),
                    record,
                    {"attempt": attempt.number},
                )
        return record

    # -- a live job

    def _look_after(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        live: Sequence[Job],
        scene: Scene,
        now: datetime,
    ) -> ChainRecord:
        record = self._close_requeued(record, settings, place, scene, now)
        on_nodes = [j for j in live if j.state.on_nodes]
        if len(live) > 1 and not _one_array(live):
            self._two_live(record, live, on_nodes, now)
        if on_nodes:
            job = on_nodes[-1]
            if job.state is JobState.COMPLETING:
                self.acting.set_right(record, settings, place, now, job)
            return self._running(record, settings, place, job, scene, now)
        job = live[0]
        if record.desired is Desired.STOP:
            return self._state(record, ChainState.STOPPED, f"stopped by a person; job {job.shown_id} still waits", now)
        self.acting.set_right(record, settings, place, now, None)
        return self._pending(record, settings, job, now)

    def _running(
        self, record: ChainRecord, settings: Chain, place: Place, job: Job, scene: Scene, now: datetime
    ) -> ChainRecord:
        progress = self.house.readers.progress(place, job, now=now)
        changes: dict[str, Any] = {}
        if not isinstance(progress, Silent):
            if progress.step is not None and progress.step != record.step:
                changes["step"] = progress.step
            if progress.saved_step is not None and progress.saved_step != record.saved_step:
                changes["saved_step"] = progress.saved_step
            if progress.target is not None and progress.target != record.target:
                changes["target"] = progress.target
        seen = watching.look(record, settings, job, progress, scene.watches, now, self.house.config.poll)
        with self.house.store.transaction(self.house.lease):
            changes["facts"] = watching.tell(self.acting, record, job, seen, now)
            record = self.house.store.update_chain(record.name, **changes)
        words = f"job {job.shown_id} is {job.state.lower()}"
        if seen.silence is not None:
            words += ", and fell silent with others" if seen.together else ", and seems to hang"
        if job.preempted_at is not None:
            words = f"job {job.shown_id} is being preempted"
        return self._state(record, ChainState.RUNNING, words, now)

    def _pending(self, record: ChainRecord, settings: Chain, job: Job, now: datetime) -> ChainRecord:
        words = f"job {job.shown_id} is pending" + (f" ({job.reason})" if job.reason not in {"", "None"} else "")
        record = self._state(record, ChainState.PENDING, words, now)
        why = needs_person(job.reason)
        if why is None:
            return self._without_fact(record, "stuck")
        stuck = record.facts.get("stuck")
        if not isinstance(stuck, Mapping) or stuck.get("reason") != job.reason or stuck.get("job") != job.job_id:
            return self._with_fact(record, "stuck", {"reason": job.reason, "job": job.job_id, "since": now.isoformat()})
        if now - datetime.fromisoformat(str(stuck["since"])) < settings.recovery.pending_alert:
            return record
        with self.house.store.transaction(self.house.lease):
            self.acting.owe(
                record, f"pending:{job.job_id}:{job.reason}", "warning",
                f"{record.name}: job {job.shown_id} waits for a person ({job.reason})", now, why=why,
                wants="mend what it waits for, or cancel it and resubmit", command=f"scontrol show job {job.job_id}",
            )  # fmt: skip
        return record

    def _two_live(self, record: ChainRecord, live: Sequence[Job], on_nodes: Sequence[Job], now: datetime) -> None:
        """Of two live jobs only our own pending one may be cancelled: the one that would double the other."""
        ours_pending = [j for j in live if not j.state.on_nodes and _ours(j, record)]
        keep_one = not on_nodes and len(ours_pending) == len(live)
        for job in ours_pending[1:] if keep_one else ours_pending:
            self.acting.cancel_pending(record, job, "another job of this chain lives", now)
        if len(on_nodes) > 1:
            with self.house.store.transaction(self.house.lease):
                ids = ", ".join(j.shown_id for j in on_nodes)
                self.acting.owe(
                    record, f"two:{ids}", "critical", f"{record.name}: jobs {ids} run at the same time", now,
                    why="two writers can damage every checkpoint; chainwatch never cancels a running job for it",
                    wants="cancel one of them", command=f"scancel {on_nodes[-1].shown_id}",
                )  # fmt: skip

    def _close_requeued(
        self, record: ChainRecord, settings: Chain, place: Place, scene: Scene, now: datetime
    ) -> ChainRecord:
        """A requeue under the same id, or a successor of somebody else: the earlier attempts are over and judged too."""
        attempts = self.house.store.attempts(record.name)
        current = {j.attempt for j in scene.jobs if not j.state.terminal}
        for attempt in attempts:
            if attempt.verdict is not None or attempt.job.attempt in current:
                continue
            end = ends.judge(attempt.job, scene.snapshot)
            if not isinstance(end, ends.Ended):
                continue
            record, waited = self._since_ended(record, attempt, now)
            if not end.complete and scene.accounting and waited < STEPS_BOUND:
                continue  # what it died of stands in accounting's row, which comes late
            judged = judging.judge(self.house, record, settings, place, attempt, end, scene.snapshot, now)
            if judged is not None:
                record = self.acting.remember(record, settings, *judged, now)
        return record

    def _since_ended(self, record: ChainRecord, attempt: Attempt, now: datetime) -> tuple[ChainRecord, timedelta]:
        """How long ago the end of this attempt was seen first."""
        seen = record.facts.get("ended_seen")
        seen = seen if isinstance(seen, Mapping) else {}
        key = str(attempt.job.attempt)
        if key not in seen:
            seen = {**seen, key: now.isoformat()}
            record = self._with_fact(record, "ended_seen", seen)
        return record, now - datetime.fromisoformat(str(seen[key]))

    # -- no live job

    def _nobody_runs(self, record: ChainRecord, now: datetime) -> ChainRecord:
        """What was measured of the attempt that ran is over; the pace that was learned stays."""
        stale = {"watch", "hang", "rate", "step_at", "phase"} & set(record.facts)
        if not stale:
            return record
        facts = dict(record.facts)
        with self.house.store.transaction(self.house.lease):
            watching.over(self.acting, record, facts, now)
            return self.house.store.update_chain(record.name, facts={k: v for k, v in facts.items() if k not in stale})

    def _after(self, record: ChainRecord, settings: Chain, place: Place, scene: Scene, now: datetime) -> ChainRecord:
        attempts = self.house.store.attempts(record.name)
        if record.desired is Desired.DONE:
            self._close_requeued(record, settings, place, scene, now)
            record = self._without_fact(self._again(record), "expected")
            return self._state(record, ChainState.DONE, f"done by a person's word: {record.desired_why or '-'}", now)
        if isinstance(expected := record.facts.get("expected"), Mapping):
            return self._unseen(record, expected, scene, now)
        unjudged = [a for a in attempts if a.verdict is None]
        for attempt in unjudged:
            outcome = self._end(record, settings, place, attempt, scene, now)
            if outcome is not None:
                return outcome
            record = self._again(record)
        if unjudged:
            attempts = self.house.store.attempts(record.name)
        telling = history.without_duplicates(attempts, record)
        last = telling[-1] if telling else None
        if record.desired is Desired.STOP:
            return self._state(record, ChainState.STOPPED, f"stopped by a person: {record.desired_why or '-'}", now)
        asked = (
            record.retried_at is not None
            and (record.state_since is None or record.retried_at >= record.state_since)
            and (last is None or last.ended is None or record.retried_at >= last.ended)  # of an end that they knew
        )
        if last is None and record.retried_at is None:
            return self._state(record, ChainState.NEW, "registered; `chainwatch submit` submits the first job", now)
        verdict = last.verdict if last is not None else None
        if last is not None and verdict is not None and verdict.outcome is Outcome.DONE:
            doubted = verdict.assumed and over_before(last, record.retried_at)
            if not doubted:
                return self.acting.done(record, last, now)
        if record.desired is Desired.PAUSE:
            until = f" until {record.desired_until:%Y-%m-%d %H:%M} UTC" if record.desired_until else ""
            return self._state(
                record, ChainState.PAUSED, f"paused by a person{until}: {record.desired_why or '-'}", now
            )
        if record.state in {ChainState.RESTING, ChainState.STOPPED, ChainState.DONE} and not asked and not unjudged:
            return record
        if not asked and now < _refused_until(record):
            return record
        past = history.of(self.house, record, now, incident=scene.incident, cohort=scene.cohort)
        return self.acting.decide_and_act(record, settings, place, past, scene.jobs, now)

    def _end(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        attempt: Attempt,
        scene: Scene,
        now: datetime,
    ) -> ChainRecord | None:
        """Judge one attempt that is not live. None: it was judged and remembered."""
        end = ends.judge(attempt.job, scene.snapshot)
        if isinstance(end, ends.Alive):
            return self._state(record, record.state, record.sentence, now)
        if isinstance(end, ends.Unknown):
            return self._vanished(record, attempt, end, scene, now)
        record, waited = self._since_ended(record, attempt, now)
        words = f"job {attempt.job.shown_id} ended ({end.job.raw_state or end.job.state})"
        if not end.complete and scene.accounting and waited < STEPS_BOUND:
            return self._state(record, ChainState.RECOVERING, f"{words}; waiting for accounting's steps", now)
        judged = judging.judge(self.house, record, settings, place, attempt, end, scene.snapshot, now)
        if judged is None:
            return self._unread(record, attempt, f"{words}; its logs and checkpoints", waited, now)
        self.acting.remember(record, settings, *judged, now)
        return None

    def _unread(
        self, record: ChainRecord, attempt: Attempt, words: str, waited: timedelta, now: datetime
    ) -> ChainRecord:
        """Storage is silent. What it holds may prove that the chain is done, so nothing is judged without it."""
        if waited < CHECKING_BOUND:
            return self._state(record, ChainState.RECOVERING, f"{words} are being read", now)
        if waited >= VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.acting.owe(
                    record, f"wait:unread:{attempt.number}", "warning", f"{record.name}: its storage does not answer", now,
                    why=f"{words} cannot be read, and may prove that it is done",
                    wants="look at the storage; chainwatch goes on by itself once it answers",
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
        return self._state(
            record, ChainState.WAITING, f"{words} cannot be read: the storage does not answer", now,
            wait_until=now + timedelta(minutes=1),
        )  # fmt: skip

    def _vanished(
        self, record: ChainRecord, attempt: Attempt, end: ends.Unknown, scene: Scene, now: datetime
    ) -> ChainRecord:
        since = record.facts.get("vanished_since")
        if not isinstance(since, Mapping) or since.get("attempt") != str(attempt.job.attempt):
            since = {"attempt": str(attempt.job.attempt), "at": now.isoformat()}
            record = self._with_fact(record, "vanished_since", since)
        seen_gone = datetime.fromisoformat(str(since["at"]))
        waited = now - seen_gone
        given_up = record.retried_at is not None and record.retried_at >= seen_gone and not end.silent
        if given_up or (not scene.accounting and waited > STEPS_BOUND):
            lost = replace(attempt.job, state=JobState.UNKNOWN, raw_state="gone from the controller's memory")
            settings = Chain.model_validate(record.settings)
            place = Place(record.name, settings, self.acting.directory(record, settings))
            judged = judging.judge(
                self.house, record, settings, place, attempt, ends.Ended(lost, complete=False), scene.snapshot, now
            )
            if judged is not None:
                return self.acting.remember(record, settings, *judged, now)
        words = f"job {attempt.job.shown_id}: {end.why}; asked again"
        if waited > VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.acting.owe(
                    record, f"vanished:{attempt.job.attempt}", "warning",
                    f"{record.name}: nobody says how job {attempt.job.shown_id} ended", now, why=end.why,
                    wants="if it is really gone: retry",
                    command=f"chainwatch retry {record.name}",
                )  # fmt: skip
        if end.silent and waited < CHECKING_BOUND:
            return record  # what was true stays as it is
        return self._state(record, ChainState.RECOVERING, words, now)

    def _unseen(self, record: ChainRecord, expected: Mapping[str, Any], scene: Scene, now: datetime) -> ChainRecord:
        """A job was submitted and the queue has not shown it: it may have come and gone between two polls."""
        wanted, since = expected["job_id"], datetime.fromisoformat(str(expected["since"]))
        for job in scene.snapshot.records:
            reused = bool(expected.get("token")) and job.attempt.submitted < since - CLOCKS_DIFFER
            if wanted in {job.job_id, job.array_job_id} and not reused:
                attempts = self.house.store.attempts(record.name)
                attempt = history.met(attempts, job, record, ours=True)
                attempt = replace(
                    attempt, resumed_from=expected.get("resume"), script_digest=str(expected.get("digest") or "")
                )
                facts = {k: v for k, v in record.facts.items() if k != "expected"}
                with self.house.store.transaction(self.house.lease):
                    self.house.store.put_attempt(record.name, attempt)
                    record = self.house.store.update_chain(record.name, facts=facts)
                return self._state(
                    record, ChainState.RECOVERING, f"job {job.shown_id} came and went between two polls", now
                )
        waited = now - since
        if waited > VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.acting.owe(
                    record, f"unseen:{expected['job_id']}", "warning",
                    f"{record.name}: job {expected['job_id']} was submitted and never seen", now,
                    why="neither squeue nor sacct shows it", wants="look for it; if it is gone: retry",
                    command=f"chainwatch retry {record.name}",
                )  # fmt: skip
            if record.retried_at is not None and record.retried_at > since:
                return self._without_fact(record, "expected")
        return self._state(record, ChainState.PENDING, f"job {expected['job_id']} was submitted", now)

    # -- the record

    def _again(self, record: ChainRecord) -> ChainRecord:
        return self.house.store.chain(record.name) or record

    def _state(
        self, record: ChainRecord, state: ChainState, sentence: str, now: datetime, **changes: Any
    ) -> ChainRecord:
        return self.acting.state(record, state, sentence, now, **changes)

    def _with_fact(self, record: ChainRecord, key: str, value: Any) -> ChainRecord:
        with self.house.store.transaction(self.house.lease):
            return self.house.store.update_chain(record.name, facts={**record.facts, key: value})

    def _without_fact(self, record: ChainRecord, key: str) -> ChainRecord:
        if key not in record.facts:
            return record
        with self.house.store.transaction(self.house.lease):
            return self.house.store.update_chain(record.name, facts={k: v for k, v in record.facts.items() if k != key})


def _refused_until(record: ChainRecord) -> datetime:
    """Slurm refused a submission for now: until then it is not asked again."""
    until = record.facts.get("refused_until")
    return datetime.fromisoformat(until) if isinstance(until, str) else datetime.min.replace(tzinfo=UTC)


def _ours(job: Job, record: ChainRecord) -> bool:
    """Our tag names this chain, or the array of which this chain is one task."""
    tag = find(job.comment)
    return tag is not None and record.name in {tag.chain, f"{tag.chain}.{job.array_task}"}


def _one_array(live: Sequence[Job]) -> bool:
    """Tasks of one `%1` array: Slurm itself runs them one after the other."""
    arrays = {j.array_job_id for j in live}
    return len(arrays) == 1 and None not in arrays


__all__ = ["ChainStep", "Scene"]
