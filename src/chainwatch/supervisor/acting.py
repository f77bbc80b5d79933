"""What follows from the end of an attempt: it is remembered, the next thing is decided and done."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from chainwatch.alerts.message import Kind, body
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, ChainState, ExcludedNode, History, LeaveAlone, Rest, Resubmit, Stop, Wait
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import Cause, Evidence, Outcome
from chainwatch.recovery import Situation, blamed, decide, shared
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import counting, judging, tracking
from chainwatch.supervisor.cancelling import Cancelling
from chainwatch.supervisor.holding import Holding
from chainwatch.supervisor.house import House
from chainwatch.supervisor.partitions import Partitions
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.setting_right import SettingRight
from chainwatch.supervisor.submitting import Submitting
from chainwatch.supervisor.traces import Traces


class Acting:
    """Carries decisions out for one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.traces = Traces(house)
        self.right = SettingRight(house, self.traces)
        self.submitting = Submitting(house, self.traces, self.right)
        self.cancelling = Cancelling(self.traces)
        self.partitions = Partitions(house)
        self.holding = Holding(house, self.traces)

    @staticmethod
    def directory(record: ChainRecord, settings: Chain) -> str:
        return str(settings.directory or record.facts.get("directory") or os.getcwd())

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
            tracking.report(store, record.name, evidence.checkpoints)
            self._blame(blamed(verdict, record.name, settings.recovery.nodes, now), now)
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
                self.traces.owe(
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

    def _blame(self, nodes: Sequence[ExcludedNode], now: datetime) -> None:
        """Keep away from these nodes. One that ended jobs of another chain too is suspect, and people are told once."""
        for excluded in nodes:
            self.house.store.exclude(excluded)
        names = {one.node for one in nodes}
        for suspect in shared(self.house.store.excluded(now), now) if names else ():
            if suspect.node in names:
                did = f"every chain keeps away from it until {suspect.until:%Y-%m-%d %H:%M} UTC"
                said = body(
                    Kind.CHANGED, why=suspect.why, did=did, wants="report it to the site's support",
                    command="chainwatch nodes",
                )  # fmt: skip
                title = f"node {suspect.node} ended jobs of two chains"
                self.traces.tell_all(f"suspect:{suspect.node}:{suspect.since:%Y%m%d}", "warning", title, said, now)

    def done(self, record: ChainRecord, last: Attempt, now: datetime) -> ChainRecord:
        verdict = last.verdict
        assert verdict is not None
        assert verdict.outcome is Outcome.DONE
        sentence = f"done: {verdict.sentence}"
        if record.state is ChainState.DONE:
            return record
        with self.house.store.transaction(self.house.lease):
            self.traces.owe(
                record, f"done:{last.number}", "info", f"{record.name} is done", now,
                what=verdict.sentence, line=verdict.root_line or "",
                did=f"{last.number} attempts; nothing is submitted any more",
            )  # fmt: skip
            self.traces.write(record.name, last.number, LeaveAlone(sentence), now, sentence)
            return self.traces.state(record, ChainState.DONE, sentence, now)

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
        settle = judging.settle_after(last.job, settings) if last else judging.settle_before_first(settings)
        begun = self.house.clock.monotonic()
        report = self.house.readers.checkpoints(place, settle=settle)
        if isinstance(report, RunReport):
            for status, many in Counter(one.status.value for one in report.checkpoints).items():
                count(self.house.store, Counted.CHECKS, many, status=status)
            count(self.house.store, Counted.CHECK_SECONDS, self.house.clock.monotonic() - begun)
            record = tracking.seen(self.house.store, self.house.lease, record, report)
        situation = self.situation(record, settings, past, report, now)
        decision = decide(situation)
        if isinstance(decision, Resubmit) and (problem := self._storage(record, place, last)):
            decision = decide(replace(situation, storage=problem))
        number = last.number if last else None
        if isinstance(decision, (Wait, Resubmit)) and decision.tell:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"tell:{number}", "warning", f"{record.name} goes on, but look at it", now, why=decision.tell,
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
        if isinstance(decision, Resubmit):
            return self.submitting.resubmit(record, settings, place, past, decision, jobs, now)
        if isinstance(decision, Wait):
            return self._wait(record, decision, number, now)
        if isinstance(decision, (Rest, Stop)):
            return self.traces.rest(record, decision, last, now)
        return self.traces.decided(record, record.state, decision, number, decision.why, now)

    def _storage(self, record: ChainRecord, place: Place, last: Attempt | None) -> str:
        """What is still wrong with the storage that the last job failed of; empty if nothing is, or it was another end."""
        if last is None or last.verdict is None or last.verdict.cause is not Cause.STORAGE:
            return ""
        answer = self.house.readers.probe(place, write=self.house.may_act(record))
        return answer.why if isinstance(answer, Silent) else answer

    def situation(
        self, record: ChainRecord, settings: Chain, past: History, report: RunReport | Silent | None, now: datetime
    ) -> Situation:
        """What a decision about the chain's next job goes by."""
        return Situation(
            settings=settings,
            history=past,
            checkpoints=report if isinstance(report, RunReport) else None,
            now=now,
            partition_size=self.partitions.size(record.cluster, past, now),
            submissions_per_hour=self.house.submissions_per_hour,
            target=record.target,
        )

    def _wait(self, record: ChainRecord, decision: Wait, number: int | None, now: datetime) -> ChainRecord:
        same = record.state is ChainState.WAITING and record.sentence == decision.why
        if same and record.wait_until is not None and now < record.wait_until:
            return record
        if decision.needs_person:
            with self.house.store.transaction(self.house.lease):
                self.traces.owe(
                    record, f"wait:{number}", "warning", f"{record.name} cannot go on by itself", now, why=decision.why,
                    wants="look at the storage and the job's old nodes",
                    command=f"chainwatch explain {record.name}",
                )  # fmt: skip
        return self.traces.decided(
            record, ChainState.WAITING, decision, number, decision.why, now, wait_until=decision.until
        )


def _most(a: int | None, b: int | None) -> int | None:
    return max((x for x in (a, b) if x is not None), default=None)


def _known(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


__all__ = ["Acting"]
