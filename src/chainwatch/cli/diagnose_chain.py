"""What chainwatch itself remembers of a job that one of its chains ran: where its logs are, and what it resumed from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chainwatch.cli import common
from chainwatch.cli.diagnose_job import JobFacts
from chainwatch.cli.first import DirectReaders
from chainwatch.cli.registering import job_id_of
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job, JobState
from chainwatch.model.verdict import Evidence
from chainwatch.store import Store, StoreError
from chainwatch.store.engine import FILE_NAME
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import history, reading
from chainwatch.supervisor.judging import settle_after
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.traces import ENDED_BY_US

_BEFORE = 3
"""Of so many attempts before it the evidence is at hand: one of them may have torn its checkpoint."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job as its chain remembers it."""

    record: ChainRecord
    attempt: Attempt
    earlier: tuple[Attempt, ...]
    evidence: Evidence | None
    """What was known when it was judged; None before."""
    before: Mapping[int, Evidence] = field(default_factory=dict)
    """What was known of the attempts right before it, by their numbers."""


def known(state: Path | None, text: str, job: Job | None, cluster: str = "") -> Known | None:
    """The chain's word on the job that a person calls `text`; `job`: its newest attempt as Slurm has it, None where Slurm
    says nothing of it. A state that cannot be read is said on stderr, and the job is diagnosed without it."""
    where = common.state_directory(state)
    if common.database() is None and not (where / FILE_NAME).exists():
        return None
    try:
        with common.opened(state) as store:
            return _of_attempt(store, job) if job is not None else _of_number(store, text, cluster)
    except StoreError as e:
        print(f"chainwatch: what chainwatch remembers is left out: {e}", file=sys.stderr)
        return None


def _of_attempt(store: Store, job: Job) -> Known | None:
    found = store.attempt_by_id(job.attempt)
    if found is not None:
        return _whole(store, *found)
    for record in store.chains():
        if record.cluster == job.cluster and job_id_of(record) in {job.job_id, job.array_job_id} - {None}:
            attempts = store.attempts(record.name)
            attempt = history.as_submitted(history.met(attempts, job, record, ours=True), record.facts["expected"])
            return Known(record, attempt, attempts, None)
    return None


def _of_number(store: Store, text: str, cluster: str) -> Known | None:
    """The newest attempt that is called so."""
    named = text.strip().partition(".")[0]
    found = [
        (record.name, attempt)
        for record in store.chains()
        if cluster in {"", record.cluster}
        for attempt in store.attempts(record.name)
        if named in {attempt.job.shown_id, str(attempt.job.job_id)}
    ]
    return _whole(store, *max(found, key=lambda one: one[1].job.attempt.submitted)) if found else None


def _whole(store: Store, chain: str, attempt: Attempt) -> Known | None:
    record = store.chain(chain)
    earlier = tuple(a for a in store.attempts(chain) if a.number < attempt.number)
    if record is None:
        return None
    before = {a.number: found for a in earlier[-_BEFORE:] if (found := store.evidence(chain, a.number)) is not None}
    return Known(record, attempt, earlier, store.evidence(chain, attempt.number), before)


def evidence_of(found: Known, facts: JobFacts | None, signatures: Path | None = None) -> Evidence:
    """The evidence of that attempt: what it was judged by, else what Slurm says now and what lies in the chain's files.

    `facts` None: Slurm knows the job no more. Files of a judged attempt are read again only where they could not be read
    then, or for signatures that were not known: a later attempt may have written into them.
    """
    before = found.evidence
    settings = Chain.stored(found.record.settings)
    if signatures is not None:
        settings = settings.model_copy(update={"logs": settings.logs.model_copy(update={"signatures": signatures})})
    job = before.job if before is not None else found.attempt.job
    if facts is not None and facts.job.attempt == job.attempt:
        job = job.merged(facts.job)
    elif before is None:
        job = replace(job, state=JobState.UNKNOWN, raw_state="gone from the controller's memory")
    directory = str(settings.directory or found.record.facts.get("directory") or job.directory)
    place = Place(found.record.name, settings, directory)
    if before is not None:
        evidence = replace(before, job=replace(job, shown_id=before.job.shown_id))
        if not before.logs.readable or signatures is not None:
            evidence = replace(evidence, logs=reading.left_behind(place, job).logs)
        return evidence
    left = reading.left_behind(place, job)
    report = DirectReaders().checkpoints(place, settle=settle_after(job, settings))
    ended = found.record.facts.get(ENDED_BY_US)
    return Evidence(
        job=job,
        sources=facts.sources if facts is not None else frozenset(),
        logs=left.logs,
        progress=left.progress,
        completion=left.completion,
        nodes=facts.nodes if facts is not None else (),
        checkpoints=report if isinstance(report, RunReport) else None,
        resumed_from=found.attempt.resumed_from,
        end_records=left.end_records,
        ended_by_us=str(ended.get(str(job.attempt)) or "") if isinstance(ended, dict) else "",
        first_seen_step=found.attempt.step_before,
        chain_user=job.user,
        user_uid=facts.user_uid if facts is not None else None,
    )


def as_dict(found: Known, evidence: Evidence) -> dict[str, Any]:
    """The chain's facts, for scripts."""
    newest = evidence.checkpoints.newest_intact if evidence.checkpoints is not None else None
    return {
        "name": found.record.name,
        "attempt": found.attempt.number,
        "resumed_from": evidence.resumed_from,
        "newest_intact": newest.path if newest is not None else None,
        "newest_intact_step": newest.step if newest is not None else None,
        "logs": list(evidence.logs.files),
    }


def rows(found: Known, evidence: Evidence) -> list[str]:
    """The same for people."""
    lines = [f"chain       {found.record.name}, attempt {found.attempt.number}"]
    if evidence.resumed_from:
        lines.append(f"resumed     from {evidence.resumed_from}")
    report = evidence.checkpoints
    if report is not None:
        newest = report.newest_intact
        step = f" (step {newest.step})" if newest is not None and newest.step is not None else ""
        lines.append(f"newest save {f'{newest.path}{step}, intact' if newest is not None else 'none is intact'}")
        if bad := [c.path for c in report.checkpoints if not c.intact]:
            lines.append(f"not intact  {', '.join(bad[-3:])}{f' and {len(bad) - 3} more' if len(bad) > 3 else ''}")
    return lines
