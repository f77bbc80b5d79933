"""What `chainwatch exec` left behind in the job's own directory: end records, read with suspicion.

They lie on the user's storage, written by any version, possibly cut: what is no record is passed over, never an error.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.model.job import ExitCode, Job, JobState, Source
from chainwatch.model.verdict import EndRecord

DIRECTORY = os.path.join(".chainwatch", "jobs")
_SLACK = timedelta(minutes=2)
"""Clocks of nodes and of the controller differ."""
_MOST_FILES = 1024
_LARGEST = 1 << 16


def job_directories(places: Collection[str], job: Job) -> list[str]:
    """The directories that belong to this job id (one for each time that Slurm requeued it), under these run directories.

    Raises OSError where storage fails; a directory that is not there is no failure.
    """
    found = []
    for place in dict.fromkeys(p for p in places if p):
        root = os.path.join(place, DIRECTORY)
        try:
            names = os.listdir(root)
        except (FileNotFoundError, NotADirectoryError):
            continue
        ids = {str(i) for i in (job.job_id, job.het_job_id) if i is not None}
        found += [os.path.join(root, n) for n in sorted(names) if n.rpartition("-")[0] in ids]
    return found


def read_end_records(places: Collection[str], job: Job) -> tuple[EndRecord, ...]:
    """The end records of this attempt, oldest first. Raises OSError where storage fails."""
    records = [
        record
        for directory in job_directories(places, job)
        for document in documents(directory, "end-")
        if _of_attempt(document, job) and (record := _record(document)) is not None
    ]
    return tuple(sorted(records, key=lambda r: r.at))


def as_recorded(job: Job, records: Sequence[EndRecord]) -> Job:
    """A job that Slurm knows no more, with what its end records tell: when it ended, and how its command did.

    A command that failed by itself makes the job FAILED. One that ended well proves nothing about the rest of the script,
    and one that was signalled nothing about who ended it: the state stays UNKNOWN.
    """
    told = [record for record in records if record.exit_code is not None or record.signal is not None]
    if job.state is not JobState.UNKNOWN or not told:
        return job
    worst = next((record for record in told if record.exit_code or record.signal), told[-1])
    code = ExitCode(worst.exit_code or 0, worst.signal or 0)
    by_itself = not code.ok and not any(record.signals for record in told)
    return replace(
        job,
        state=JobState.FAILED if by_itself else job.state,
        source=Source.END_RECORD,
        exit=code,
        end=max(record.at for record in told),
    )


def documents(directory: str, prefix: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in files of this prefix, at most a thousand."""
    names = [n for n in sorted(os.listdir(directory)) if n.startswith(prefix) and n.endswith(".json")]
    for name in names[:_MOST_FILES]:
        try:
            with open(os.path.join(directory, name), "rb", opener=_plainly) as file:
                value = json.loads(file.read(_LARGEST))
        except (FileNotFoundError, ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def moment(seconds: object) -> datetime | None:
    """An epoch second as a datetime; None for what is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _of_attempt(document: Mapping[str, Any], job: Job) -> bool:
    """Written while this attempt ran: a requeue keeps the id, and ids are reused."""
    started, at = moment(document.get("started")), moment(document.get("at"))
    if started is None or at is None:
        return False
    if at < (job.start or job.attempt.submitted) - _SLACK:
        return False
    return job.end is None or started <= job.end + _SLACK


def _record(document: Mapping[str, Any]) -> EndRecord | None:
    node, at = document.get("node"), moment(document.get("at"))
    if not isinstance(node, str) or at is None:
        return None
    return EndRecord(
        node=node,
        exit_code=_whole(document.get("exit_code")),
        signal=_whole(document.get("signal")),
        at=at,
        signals=tuple(_signals(document.get("signals"))),
        saving=document["saving"] if isinstance(document.get("saving"), bool) else None,
        oom_kill=document.get("oom_kill") is True,
        preflight=_text(document.get("preflight")) or _text(document.get("refused")) or "",
        bad_node=_text(document.get("bad_node")),
        resumed_from=_text(document.get("resumed_from")),
        image=_text(document.get("image")) or "",
    )


def _signals(value: object) -> Iterator[tuple[str, datetime]]:
    for pair in value[:64] if isinstance(value, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and pair[0] in signal.Signals.__members__:
            when = moment(pair[1])
            if when is not None:
                yield pair[0], when


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value[:2000] if isinstance(value, str) and value else None
