"""Signs of life and of progress beside the logs: the program's own heartbeat, `trainer_state.json`, growing checkpoints."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chainwatch.evidence.end_records import documents, job_directories, moment
from chainwatch.evidence.follow import Phase
from chainwatch.model.job import Job
from chainwatch.model.plain_file import read_plain

_SLACK = timedelta(minutes=2)
_NEWEST = 2
_MOST_FILES = 2000
_LARGEST = 8 << 20


@dataclass(frozen=True, slots=True)
class Signs:
    """What one look gave."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    phase: Phase | None = None
    source: str = ""
    tokens: int | None = None
    life: str = ""
    """Changes with every sign of life."""
    save: tuple[int, int] | None = None
    """Bytes and files of the largest of the newest checkpoints."""


def heartbeats(places: Collection[str], job: Job) -> Signs:
    """What the programs of this attempt say by `heartbeat(step=…)`. Raises OSError.

    The beat of `chainwatch exec` itself is no sign of the program's life, and is not read here.
    """
    newest: Mapping[str, Any] = {}
    beats: list[str] = []
    for directory in job_directories(places, job):
        for said in documents(directory, "step-"):
            at = moment(said.get("at"))
            if at is None or (job.start is not None and at < job.start - _SLACK):
                continue
            beats.append(str(said["at"]))
            if not newest or (_whole(said.get("step")) or -1, said["at"]) >= (
                _whole(newest.get("step")) or -1,
                newest["at"],
            ):
                newest = said
    phase = newest.get("phase")
    loss = newest.get("loss")
    return Signs(
        step=_whole(newest.get("step")),
        total=_whole(newest.get("total")),
        loss=float(loss) if isinstance(loss, int | float) and not isinstance(loss, bool) else None,
        phase=Phase(phase) if isinstance(phase, str) and phase in set(Phase) else None,
        source="heartbeat" if newest else "",
        life=",".join(sorted(beats)),
    )


def saves(run: str, since: datetime | None) -> Signs:
    """The newest entries of a checkpoint directory: their bytes, and what `trainer_state.json` says. Raises OSError."""
    try:
        with os.scandir(run) as entries:
            newest = sorted(
                ((e.stat().st_mtime_ns, e.path) for e in entries if not e.name.startswith(".")), reverse=True
            )
    except (FileNotFoundError, NotADirectoryError):
        return Signs()
    life: list[str] = []
    state: Signs = Signs()
    largest = (0, 0)
    for modified, path in newest[:_NEWEST]:
        count, size, latest = _weigh(path)
        life.append(f"{count}:{size}:{max(latest, modified)}")
        largest = max(largest, (size, count))
        if state.step is None and (since is None or latest >= (since - _SLACK).timestamp() * 1e9):
            state = _trainer_state(os.path.join(path, "trainer_state.json"))
    return Signs(state.step, state.total, state.loss, None, state.source, life=",".join(life), save=largest)


def _weigh(path: str) -> tuple[int, int, int]:
    """Files, bytes and newest change under a path; at most two thousand files."""
    count = size = latest = 0
    waiting = [path]
    while waiting and count < _MOST_FILES:
        here = waiting.pop()
        try:
            status = os.stat(here, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                waiting += [os.path.join(here, name) for name in os.listdir(here)]
        except FileNotFoundError:
            continue
        count += 1
        latest = max(latest, status.st_mtime_ns)
        size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return count, size, latest


def _trainer_state(path: str) -> Signs:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return Signs()
        state = json.loads(read_plain(path, _LARGEST))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return Signs()
    if not isinstance(state, dict):
        return Signs()
    return Signs(_whole(state.get("global_step")), _whole(state.get("max_steps")), source=path)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None
