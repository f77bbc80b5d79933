"""What a person's word does at once to the jobs of a chain that live: `stop --cancel`, `pause --hold`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from chainwatch.actions.audit import Audit
from chainwatch.actions.holds import Holds
from chainwatch.cli import common
from chainwatch.model.job import JobState
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.clusters import reach


def cancel_live(chain: str, state: Path | None) -> None:
    """scancel the chain's live jobs."""
    with _reached(chain, state) as (store, record, backend, audit):
        for job_id in _live(store, record):
            audit.note(common.now(), "scancel", chain, job=job_id, why="stop --cancel")
            backend.cancel(job_id)
            typer.echo(f"{chain}: job {job_id} is cancelled", err=True)


def hold_pending(chain: str, state: Path | None) -> None:
    """Hold the chain's pending jobs; the daemon releases them when the chain is looked after again."""
    with _reached(chain, state) as (store, record, backend, audit):
        for job_id in _live(store, record):
            job = backend.job(job_id)
            if job is None or job.state is not JobState.PENDING or job.held:
                continue
            problem = Holds(store, None, audit).hold(backend, chain, job, "pause --hold", common.now())
            typer.echo(
                f"{chain}: job {job.shown_id} " + (f"is not held: {problem}" if problem else "is held"), err=True
            )


@contextmanager
def _reached(chain: str, state: Path | None) -> Iterator[tuple[Store, ChainRecord, Backend, Audit]]:
    """The chain, its cluster, and the log of what is done to it; the site may forbid it."""
    common.as_the_site_allows()
    where = common.state_directory(state)
    with common.opened(where) as store:
        record = common.known_chain(store, chain)
        yield store, record, reach(record.cluster, store), Audit(where)


def _live(store: Store, record: ChainRecord) -> list[int]:
    expected = record.facts.get("expected")
    submitted = [int(expected["job_id"])] if isinstance(expected, dict) else []
    return list(dict.fromkeys([*(a.job.job_id for a in store.attempts(record.name) if a.ended is None), *submitted]))
