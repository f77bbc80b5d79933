"""Attempts that are over while others of the chain live, and since when an end is known."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause
from chainwatch.recovery import fruitless_preemptions
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import ends, history, judging
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.scene import Scene

STEPS_BOUND = timedelta(minutes=2)
"""How long to wait for accounting's steps, once the controller says that a job ended."""


class Closing:
    """Judges ends for one house."""

    def __init__(self, acting: Acting) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces

    def close_requeued(
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
            record, waited = self.since_ended(record, attempt, now)
            if not end.complete and scene.accounting and waited < STEPS_BOUND:
                continue  # what it died of stands in accounting's row, which comes late
            judged = judging.judge(self.house, record, settings, place, attempt, end, scene.snapshot, now)
            if judged is not None:
                record = self.acting.remember(record, settings, *judged, now)
                self._in_vain(record, settings, judged[0], now)
        return record

    def _in_vain(self, record: ChainRecord, settings: Chain, ended: Attempt, now: datetime) -> None:
        """Somebody else brings the chain back, so that nothing is decided: that it gets nowhere is told all the same."""
        policy = settings.recovery
        fruitless = fruitless_preemptions(history.of(self.house, record, now))
        preempted = ended.verdict is not None and ended.verdict.cause is Cause.PREEMPTION
        if not preempted or fruitless not in {policy.preemptions_alert, policy.preemptions_rest}:
            return
        with self.house.store.transaction(self.house.lease):
            self.traces.owe(
                record, f"vain:{ended.number}", "warning", f"{record.name} is preempted again and again in vain", now,
                why=f"preempted {fruitless} times without a new intact checkpoint; it is brought back each time, and not by "
                "chainwatch",
                wants="save more often, use a queue that is preempted less, or hold it until somebody has looked",
                command=f"chainwatch explain {record.name}",
            )  # fmt: skip

    def since_ended(self, record: ChainRecord, attempt: Attempt, now: datetime) -> tuple[ChainRecord, timedelta]:
        """How long ago the end of this attempt was seen first."""
        seen = record.facts.get("ended_seen")
        seen = seen if isinstance(seen, Mapping) else {}
        key = str(attempt.job.attempt)
        if key not in seen:
            seen = {**seen, key: now.isoformat()}
            record = self.traces.with_fact(record, "ended_seen", seen)
        return record, now - datetime.fromisoformat(str(seen[key]))
