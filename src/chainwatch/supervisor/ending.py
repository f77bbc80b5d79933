"""A chain without a live job: has the last attempt ended, what did it end of, and what comes next?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.config.models import Chain
from chainwatch.diagnosis import cohorts, incidents
from chainwatch.model.chain import Attempt, ChainState, Desired
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.verdict import Evidence, Outcome
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import ends, history, judging, warning, watching
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.closing import STEPS_BOUND, Closing
from chainwatch.supervisor.federation import Federation
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.scene import Scene
from chainwatch.supervisor.traces import CHECKING_BOUND

_STOPPED_BY_A_PERSON, _DONE_BY_A_PERSON = "stopped by a person", "done by a person's word"
"""How the sentence of a chain begins that stands where a person's wish put it."""
VANISHED_ALERT = timedelta(minutes=15)
"""How long a job may be in neither squeue nor sacct before a person is told; it is asked for all the same."""
CLOCKS_DIFFER = timedelta(minutes=10)
"""A job that was submitted this long before our sbatch is an older one of the same id."""


class Ending:
    """Looks after chains of one house of which no job lives."""

    def __init__(self, acting: Acting, closing: Closing) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces
        self._closing = closing
        self._federation = Federation(acting)

    def nobody_runs(self, record: ChainRecord, now: datetime) -> ChainRecord:
        """What was measured of the attempt that ran is over; the pace that was learned stays."""
        stale = {"watch", "hang", "probes", "ending", "cancelled_at", "rate", "step_at", "phase", warning.WARNED} & set(
            record.facts
        )
        if not stale:
            return record
        facts = dict(record.facts)
        with self.house.store.transaction(self.house.lease):
            watching.over(self.traces, record, facts, now)
            warning.over(self.traces, record, now)
            return self.house.store.update_chain(record.name, facts={k: v for k, v in facts.items() if k not in stale})

    def after(self, record: ChainRecord, settings: Chain, place: Place, scene: Scene, now: datetime) -> ChainRecord:
        attempts = self.house.store.attempts(record.name)
        if record.desired is Desired.DONE:
            self._closing.close_requeued(record, settings, place, scene, now)
            record = self.traces.without_fact(self.traces.again(record), "expected")
            return self.traces.state(record, ChainState.DONE, f"{_DONE_BY_A_PERSON}: {record.desired_why or '-'}", now)
        if isinstance(expected := record.facts.get("expected"), Mapping):
            return self._unseen(record, expected, scene, now)
        unjudged = [a for a in attempts if a.verdict is None]
        for attempt in unjudged:
            outcome = self._end(record, settings, place, attempt, scene, now)
            if outcome is not None:
                return outcome
            record = self.traces.again(record)
        if unjudged:
            attempts = self.house.store.attempts(record.name)
        telling = history.without_duplicates(attempts, record)
        last = telling[-1] if telling else None
        asked = (
            record.retried_at is not None
            and (record.state_since is None or record.retried_at >= record.state_since)
            and (last is None or last.ended is None or record.retried_at >= last.ended)  # of an end that they knew
        )
        at_rest = record.state in {ChainState.RESTING, ChainState.STOPPED, ChainState.DONE} and not _lifted(record)
        if last is None and record.retried_at is None and record.desired is not Desired.STOP:
            if at_rest:  # the first job was refused, or is past a cap: people are told, and it stays so
                return record
            return self.traces.state(
                record, ChainState.NEW, "registered; `chainwatch submit` submits the first job", now
            )
        verdict = last.verdict if last is not None else None
        if last is not None and history.is_done(last, record):
            return self.acting.done(record, last, now)
        if record.desired is Desired.STOP:
            return self.traces.state(
                record, ChainState.STOPPED, f"{_STOPPED_BY_A_PERSON}: {record.desired_why or '-'}", now
            )
        if record.desired is Desired.PAUSE:
            until = f" until {record.desired_until:%Y-%m-%d %H:%M} UTC" if record.desired_until else ""
            return self.traces.state(
                record, ChainState.PAUSED, f"paused by a person{until}: {record.desired_why or '-'}", now
            )
        if at_rest and not asked and not unjudged:
            return record
        if not asked and now < _refused_until(record):
            return record
        together = verdict is not None and (
            incidents.may_be_one(verdict, scene.chains) or cohorts.may_be_one(verdict, scene.siblings)
        )
        if unjudged and not asked and verdict is not None and together:
            return self.traces.state(
                record, ChainState.RECOVERING, f"{verdict.sentence}; looks whether other chains ended like it", now
            )
        past = history.of(self.house, record, now, incident=scene.incident, cohorts=scene.cohorts)
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
            return self.traces.state(record, record.state, record.sentence, now)
        if isinstance(end, ends.Unknown):
            moved = self._federation.follow(record, attempt) if end.elsewhere else None
            return moved or self._vanished(record, attempt, end, scene, now)
        record, waited = self._closing.since_ended(record, attempt, now)
        words = f"job {attempt.job.shown_id} ended ({end.job.raw_state or end.job.state})"
        if not end.complete and scene.accounting and waited < STEPS_BOUND:
            return self.traces.state(record, ChainState.RECOVERING, f"{words}; waiting for accounting's steps", now)
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
            return self.traces.checking(record, f"{words} are being read", now - waited, now)
        if waited >= VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"wait:unread:{attempt.number}", "warning", f"{record.name}: its storage does not answer", now,
                    why=f"{words} cannot be read, and may prove that it is done",
                    wants="look at the storage; chainwatch goes on by itself once it answers",
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
        return self.traces.checking(record, f"{words} cannot be read: the storage does not answer", now - waited, now)

    def _vanished(
        self, record: ChainRecord, attempt: Attempt, end: ends.Unknown, scene: Scene, now: datetime
    ) -> ChainRecord:
        since = record.facts.get("vanished_since")
        if not isinstance(since, Mapping) or since.get("attempt") != str(attempt.job.attempt):
            since = {"attempt": str(attempt.job.attempt), "at": now.isoformat()}
            record = self.traces.with_fact(record, "vanished_since", since)
        seen_gone = datetime.fromisoformat(str(since["at"]))
        waited = now - seen_gone
        given_up = record.retried_at is not None and record.retried_at >= seen_gone and not end.silent
        purged = not end.silent and waited >= CHECKING_BOUND
        if given_up or purged or (not scene.accounting and waited > STEPS_BOUND and not end.elsewhere):
            judged = self._by_what_it_left(record, attempt, scene, now)
            proven = judged is not None and judged[0].verdict is not None and judged[0].verdict.outcome is Outcome.DONE
            if judged is not None and (proven or given_up or not scene.accounting):
                return self.acting.remember(record, self.house.settings(record), *judged, now)
        words = f"job {attempt.job.shown_id}: {end.why}; asked again"
        if waited > VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"vanished:{attempt.job.attempt}", "warning",
                    f"{record.name}: nobody says how job {attempt.job.shown_id} ended", now, why=end.why,
                    wants="look for it there, and let a daemon watch that cluster: a retry here would run beside it"
                    if end.elsewhere
                    else "if it is really gone: retry",
                    command=f"chainwatch explain {record.name}" if end.elsewhere else f"chainwatch retry {record.name}",
                )  # fmt: skip
        if end.silent and waited < CHECKING_BOUND:
            return record  # what was true stays as it is
        return self.traces.checking(record, words, seen_gone, now)

    def _by_what_it_left(
        self, record: ChainRecord, attempt: Attempt, scene: Scene, now: datetime
    ) -> tuple[Attempt, Evidence] | None:
        """Slurm knows the job no more. Its logs and files may still prove that the chain is done."""
        lost = replace(attempt.job, state=JobState.UNKNOWN, raw_state="gone from the controller's memory")
        settings = self.house.settings(record)
        place = Place(record.name, settings, self.acting.directory(record, settings), record.state_since)
        end = ends.Ended(lost, complete=False)
        return judging.judge(self.house, record, settings, place, attempt, end, scene.snapshot, now)

    def _unseen(self, record: ChainRecord, expected: Mapping[str, Any], scene: Scene, now: datetime) -> ChainRecord:
        """A job was submitted and the queue has not shown it: it may have come and gone between two polls."""
        wanted, since = expected["job_id"], datetime.fromisoformat(str(expected["since"]))
        for job in scene.snapshot.records:
            reused = bool(expected.get("token")) and job.attempt.submitted < since - CLOCKS_DIFFER
            if wanted in {job.job_id, job.array_job_id} and not reused:
                return self._came_and_went(record, job, expected, "between two polls", now)
        waited = now - since
        if not scene.accounting and waited > STEPS_BOUND:
            return self._forgotten(record, expected, since, now)
        if waited > VANISHED_ALERT:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"unseen:{expected['job_id']}", "warning",
                    f"{record.name}: job {expected['job_id']} was submitted and never seen", now,
                    why="neither squeue nor sacct shows it", wants="look for it; if it is gone: retry",
                    command=f"chainwatch retry {record.name}",
                )  # fmt: skip
            if record.retried_at is not None and record.retried_at > since:
                return self.traces.without_fact(record, "expected")
        return self.traces.state(record, ChainState.PENDING, f"job {expected['job_id']} was submitted", now)

    def _forgotten(
        self, record: ChainRecord, expected: Mapping[str, Any], since: datetime, now: datetime
    ) -> ChainRecord:
        """A site without accounting: the job was accepted, and the controller has forgotten it before anybody looked."""
        identity = AttemptId(record.cluster, int(expected["job_id"]), since)
        directory = self.acting.directory(record, self.house.settings(record))
        job = Job(
            identity, str(identity.job_id), JobState.UNKNOWN, Source.QUEUE, user=self.house.user, directory=directory
        )
        return self._came_and_went(record, job, expected, "before anybody looked", now)

    def _came_and_went(
        self, record: ChainRecord, job: Job, expected: Mapping[str, Any], when: str, now: datetime
    ) -> ChainRecord:
        """The expected job is an attempt, and is over already."""
        known = history.met(self.house.store.attempts(record.name), job, record, ours=True)
        facts = {k: v for k, v in record.facts.items() if k != "expected"}
        with self.house.store.transaction(self.house.lease):
            self.house.store.put_attempt(record.name, history.as_submitted(known, expected))
            record = self.house.store.update_chain(record.name, facts=facts)
        return self.traces.state(record, ChainState.RECOVERING, f"job {job.shown_id} came and went {when}", now)


def _lifted(record: ChainRecord) -> bool:
    """It stands where a person's wish had put it, and that is taken back (`resume`): the last end decides anew."""
    wished = {ChainState.STOPPED: _STOPPED_BY_A_PERSON, ChainState.DONE: _DONE_BY_A_PERSON}
    return record.desired is Desired.RUN and record.sentence.startswith(wished.get(record.state, "\0"))


def _refused_until(record: ChainRecord) -> datetime:
    """Slurm refused a submission for now: until then it is not asked again."""
    until = record.facts.get("refused_until")
    return datetime.fromisoformat(until) if isinstance(until, str) else datetime.min.replace(tzinfo=UTC)
