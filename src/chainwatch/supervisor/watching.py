"""Looking after a running attempt's life: the watch of each poll, and the alert when it falls silent.

Nothing here ends a job: see `hanging`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chainwatch.alerts.message import Kind, body
from chainwatch.config.models import Chain
from chainwatch.diagnosis.hang import Look, Pace, Silence, Watch, fell_silent_together, judge, observe
from chainwatch.model.chain import ChainState
from chainwatch.model.job import Job, JobState
from chainwatch.model.verdict import Progress
from chainwatch.store.records import ChainRecord
from chainwatch.store.standing import JOURNEY, journeyed
from chainwatch.supervisor.readers import Silent
from chainwatch.supervisor.traces import Traces

WATCH, PACE, ALARM, RESTARTS, TELLS = "watch", "pace", "hang", "restarts", "tells_steps"
"""Facts of the chain's record; `hang` holds the attempt that was told about. `tells_steps`: a running job's steps could be
read. The record's own step proves nothing of it: it may come from a checkpoint."""
_LOST = frozenset({"nan", "inf", "-inf"})
STALLED = "incident:storage-stall"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one poll says of a running attempt's life."""

    facts: dict[str, Any]
    """The record's facts, brought up to date."""
    silence: Silence | None
    restarted: str = ""
    """That a launcher restarted the workers inside the job, in words: an event of the attempt, and no alarm."""
    together: tuple[str, ...] = ()
    """The chains that fell silent with it: then it is no hang of its own."""


def look(
    record: ChainRecord,
    settings: Chain,
    job: Job,
    progress: Progress | Silent,
    watches: Mapping[str, Watch],
    now: datetime,
    poll: timedelta,
) -> Seen:
    """One more look. Pure: nothing is stored or told here."""
    pace = Pace.of(record.facts.get(PACE))
    known = progress if isinstance(progress, Progress) else Progress()
    watch, pace = observe(
        Watch.of(record.facts.get(WATCH)),
        pace,
        Look(
            attempt=str(job.attempt),
            at=now,
            running=job.state is JobState.RUNNING and job.preempted_at is None,
            answered=isinstance(progress, Progress),
            life=known.life,
            step=known.step,
            phase=known.phase,
            tells_steps=bool(record.facts.get(TELLS)),
        ),
        poll,
    )
    facts = {**record.facts, WATCH: watch.as_dict(), PACE: pace.as_dict()}
    if isinstance(progress, Progress):
        facts["rate"] = progress.rate
        if progress.step is not None:
            facts[TELLS] = True
        facts["loss"] = _json(progress.loss)
        facts["step_at"] = progress.at.isoformat() if progress.at else None
        facts["phase"] = progress.phase
        if progress.tokens is not None:
            facts["tokens"] = progress.tokens
        facts[RESTARTS] = {"attempt": str(job.attempt), "count": progress.restarts}
        facts[JOURNEY] = journeyed(record.facts, progress.step, now)
    silence = judge(watch, pace, settings.hang)
    together = fell_silent_together(record.name, {**watches, record.name: watch}) if silence else ()
    return Seen(facts, silence, _restarted(record, job, known), together)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a silent job's processes adds to the alert."""

    saw: str = ""
    did: str = "nothing: the job is left alone"
    waits: bool = False
    """A look is under way: its result is told with the silence."""


def tell(
    traces: Traces, record: ChainRecord, job: Job, seen: Seen, now: datetime, looked: Looked = Looked()
) -> dict[str, Any]:
    """Owe the alert of a silence, or take it back when life returned. In the caller's transaction; returns the facts."""
    facts = dict(seen.facts)
    silence = seen.silence
    if facts.get("loss") in _LOST and record.facts.get("loss") in _LOST:  # one lost step is mixed precision at work
        traces.owe(
            record, f"nan:{job.attempt}", "warning", f"{record.name}: the loss is {facts['loss']}", now,
            why=f"job {job.shown_id} told so in two polls in a row" + (f", at step {record.step}" if record.step else ""),
            did="nothing: the job is left alone", wants="look whether the run is still worth its nodes",
            command=f"chainwatch logs {record.name}",
        )  # fmt: skip
    if silence is None or seen.together:
        over(traces, record, facts, now)
    if silence is None:
        return facts
    if seen.together:
        traces.tell_all(
            STALLED, "critical", f"incident: {len(seen.together)} chains fell silent at the same moment",
            body(
                Kind.INCIDENT, what=", ".join(seen.together), why=silence.sentence,
                did="nothing: what they share (storage, network) is at fault rather than one of them",
                wants="look at the file system that they write to",
            ),
            now,
        )  # fmt: skip
        return facts
    if looked.waits:
        return facts
    traces.owe(
        record, f"hang:{job.attempt}", "critical", f"{record.name}: job {job.shown_id} seems to hang", now,
        what=looked.saw, why=silence.sentence, did=looked.did,
        wants=f"look at its processes; if it hangs, end it (scancel {job.shown_id}), then let the chain go on",
        command=f"chainwatch retry {record.name}",
    )  # fmt: skip
    facts[ALARM] = str(job.attempt)
    return facts


def over(traces: Traces, record: ChainRecord, facts: dict[str, Any], now: datetime) -> None:
    """Life returned, or the attempt ended: what was told of its silence is taken back. Changes `facts`."""
    told = facts.pop(ALARM, None)
    if told is not None:
        traces.house.store.recover(f"{record.name}:hang:{told}", now)


def watches(records: Iterable[ChainRecord]) -> dict[str, Watch]:
    """The watches of all chains that run."""
    running = ((r.name, Watch.of(r.facts.get(WATCH))) for r in records if r.state is ChainState.RUNNING)
    return {name: watch for name, watch in running if watch is not None}


def stalled(alive: Mapping[str, Watch]) -> bool:
    """Some chains are silent together."""
    return any(fell_silent_together(name, alive) for name in alive)


def _restarted(record: ChainRecord, job: Job, progress: Progress) -> str:
    before = record.facts.get(RESTARTS)
    same = isinstance(before, Mapping) and before.get("attempt") == str(job.attempt)
    if not same or progress.restarts <= int(before["count"]):  # type: ignore[index]
        return ""
    at = f" at step {record.step}" if record.step is not None else ""
    return f"the launcher restarted the workers inside job {job.shown_id}{at}, for the {_nth(progress.restarts)} time"


def _nth(number: int) -> str:
    word = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{word}"


def _json(loss: float | None) -> float | str | None:
    """JSON knows no NaN."""
    return loss if loss is None or math.isfinite(loss) else str(loss)
