"""The track that a chain leaves for plots and metrics: how far it was when, and its saves, also while the job runs.

None of it is needed to decide anything: what cannot be read now is read later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.config.models import Chain
from chainwatch.model.checkpoint import RunReport, Status
from chainwatch.model.verdict import Progress
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord, Lease, Point, Save
from chainwatch.supervisor.readers import Place, Readers, Silent

LOOKED = "looked"
"""Fact of the chain's record: when its checkpoints were last looked at while a job ran, and what lay there."""
EVERY = timedelta(minutes=5)
"""A running job's checkpoints are judged at least so often where something changed, however long it takes."""
SHARE = 50
"""A look that took a second is not repeated for so many: small directories are looked at in every poll."""


def progress(store: Store, chain: str, told: Progress | Silent, now: datetime) -> None:
    """Remember how far the chain is."""
    if isinstance(told, Progress) and told.step is not None:
        loss = told.loss if told.loss is not None and math.isfinite(told.loss) else None
        store.add_point(chain, Point(now, told.step, loss))


def report(store: Store, chain: str, seen: RunReport | None) -> None:
    """Remember the saves of a report; one that is still being written is not one yet."""
    if seen is None:
        return
    store.put_saves(
        chain,
        [
            Save(one.path, datetime.fromtimestamp(int(one.modified), UTC), one.step, one.status)
            for one in seen.checkpoints
            if one.status is not Status.IN_PROGRESS and one.modified > 0
        ],
    )


def running(
    readers: Readers, record: ChainRecord, settings: Chain, place: Place, told: Progress | Silent, now: datetime
) -> tuple[RunReport | None, dict[str, Any]]:
    """The saves of a job that runs, and the fact to keep; nothing where nothing changed or it is too soon."""
    if settings.checkpoints is None or isinstance(told, Silent):
        return None, {}
    life = told.life.rpartition("|")[2]
    looked = record.facts.get(LOOKED)
    if isinstance(looked, Mapping):
        pause = min(EVERY, timedelta(seconds=SHARE * float(looked.get("took", EVERY.total_seconds()))))
        if looked.get("life") == life or now - datetime.fromisoformat(str(looked["at"])) < pause:
            return None, {}
    seen = readers.checkpoints(place, settle=settings.checkpoints.settle, fresh=False)
    if not isinstance(seen, RunReport):
        return None, {}
    if any(one.status is Status.IN_PROGRESS for one in seen.checkpoints):
        life = ""  # it will be whole without a further change
    return seen, {LOOKED: {"at": now.isoformat(), "life": life, "took": round(seen.took, 3)}}


def seen(store: Store, lease: Lease | None, record: ChainRecord, report: RunReport) -> ChainRecord:
    """Remember the newest step that is safe, after a whole look while no job runs: it is also known before a first job
    has saved, or after a save that was still being written has come to its end."""
    newest = report.newest_intact.step if report.newest_intact is not None else None
    if newest is None or newest == record.saved_step:
        return record
    with store.transaction(lease):
        return store.update_chain(record.name, saved_step=newest)


def newest_saved(record: ChainRecord, seen: RunReport) -> int | None:
    """The newest step that is safe. A look that began a while ago may not know the newest save yet: only one that was
    found damaged takes the step back."""
    known, newest = record.saved_step, seen.newest_intact.step if seen.newest_intact else None
    if known is None or newest is None or newest >= known:
        return newest if newest is not None else known
    worse = any(one.step == known and not one.intact for one in seen.checkpoints)
    return newest if worse else known
