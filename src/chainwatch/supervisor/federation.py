"""A job of a federation is submitted to every cluster and started by one: the siblings elsewhere are REVOKED.

All have one id, which no other job of the federation has, so that the attempt is known again where it runs, and the chain
goes there. A sibling's submit time is later where the job waited for a dependency first (measured on 22.05: 8 s).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from chainwatch.model.chain import Attempt, ChainState
from chainwatch.model.job import Job, JobState
from chainwatch.slurm.backend import NoInformation
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.acting import Acting

_CLOCKS = timedelta(seconds=2)
"""Each controller notes the submit time by itself."""


class Federation:
    """Follows the chains of one house to the cluster that started their job."""

    def __init__(self, acting: Acting) -> None:
        self.house = acting.house
        self.traces = acting.traces

    def follow(self, record: ChainRecord, attempt: Attempt) -> ChainRecord | None:
        """The chain where its job is now; None where no cluster of this daemon has it."""
        sibling = self._sibling(record, attempt.job)
        if sibling is None:
            return None
        identity, here = sibling.attempt, attempt.job.cluster
        job = replace(
            attempt.job, attempt=identity, shown_id=sibling.shown_id, state=sibling.state, raw_state=sibling.raw_state,
            reason=sibling.reason, start=sibling.start, end=None, exit=None, derived_exit=None, nodes=sibling.nodes,
        )  # fmt: skip
        if job.state.terminal:
            job = replace(job, state=JobState.UNKNOWN)  # it is judged there, by what that cluster says
        with self.house.store.transaction(self.house.lease):
            self.house.store.move_attempt(record.name, attempt.job.attempt, replace(attempt, job=job))
            record = self.house.store.update_chain(record.name, cluster=identity.cluster)
        return self.traces.state(
            record,
            ChainState.RECOVERING,
            f"job {job.shown_id} was started by {identity.cluster}, not by {here}: the chain goes on there",
            self.house.clock.now(),
        )

    def _sibling(self, record: ChainRecord, job: Job) -> Job | None:
        for name, backend in self.house.backends.items():
            if name == record.cluster:
                continue
            try:
                rows = backend.accounting([job.job_id])
            except NoInformation:
                continue
            for row in rows:
                since = row.attempt.submitted >= job.attempt.submitted - _CLOCKS
                if since and row.state is not JobState.REVOKED and row.user in ("", job.user):
                    return row
        return None
