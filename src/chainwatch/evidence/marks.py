"""Completion marks in logs: which lines bear one, and whether the program can have written it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.evidence.logs.attempt import attempt_start
from chainwatch.evidence.logs.file import LogReader
from chainwatch.evidence.logs.text import aware, stamp
from chainwatch.model.job import Job
from chainwatch.model.verdict import Line

_PIECE = 1 << 20
_CLOCKS = timedelta(minutes=2)
_BY_SLURM = rb"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|JOB REQUEUE)"


@dataclass(frozen=True, slots=True)
class Marks:
    """What one log holds of a mark."""

    lines: tuple[Line, ...] = ()
    """The last few."""
    count: int = 0
    """How many; counting stops at what is enough."""
    behind: int = 0
    """Those that stand behind Slurm's notice that it ends the job: a script that goes on after its killed program prints
    them, too, so that they are not among `count`."""


def begin_of(log: LogReader, start: int, since: datetime) -> int:
    """Where the attempt that started at `since` begins in a log that may hold earlier ones, too. Raises `Unreadable`."""
    year = datetime.fromtimestamp(log.modified, UTC).year
    high = log.size
    while high > start:
        low = max(start, high - _PIECE)
        window = log.window(low, high, 0)
        cut = attempt_start(window.text[window.own :], since, year)
        if cut:
            return window.base + window.own + cut
        high = low
    return start


def marks_in(log: LogReader, start: int, pattern: Any, enough: int, job: Job | None = None) -> Marks:
    """The lines from `start` on that the pattern meets. `job`: whose end notices count. Raises `Unreadable`."""
    lines: list[Line] = []
    count = behind = 0
    over: int | None = None
    at = start if start <= log.size else 0
    number = 1 + log.count_newlines(0, at) if at <= 64 * _PIECE else None
    while at < log.size and count < enough:
        window = log.window(at, min(log.size, at + _PIECE), 0)
        text = window.text[window.own :]
        base = window.base + window.own
        if over is None and job is not None and (first := _end_notice(text, job)) is not None:
            over = base + first
        counted = 0
        for begin, end in _met(text, pattern):
            if over is not None and base + begin > over:
                behind += 1
                continue
            count += 1
            if number is not None:
                number += text.count(b"\n", counted, begin)
                counted = begin
            shown = text[begin:end].rpartition(b"\r")[2] or text[begin:end].rstrip(b"\r")
            lines = [*lines[-2:], Line(log.path, number, shown[:4096].decode("utf-8", "replace"), base + begin)]
            if count >= enough:
                break
        if number is not None:
            number += text.count(b"\n", counted)
        at += _PIECE
    return Marks(tuple(lines), count, behind)


def _met(text: bytes, pattern: Any) -> Iterator[tuple[int, int]]:
    """Begin and end of the lines that the pattern meets."""
    searched = text.replace(b"\r", b"\n")  # what a progress bar wrote over, too, is a line
    position = 0
    while position <= len(text) and (hit := pattern.search(searched, position)) is not None:
        begin = text.rfind(b"\n", 0, hit.start()) + 1
        end = text.find(b"\n", hit.end())
        end = len(text) if end < 0 else end
        yield begin, end
        position = end + 1


def _end_notice(text: bytes, job: Job) -> int | None:
    """Where Slurm says that it ends this attempt. A step may have been ended by the script itself, once it needed it no
    more, so its notice counts only where Slurm names its own reason, or the job was preempted."""
    step = rb"" if job.preempted_at is not None else rb"[^\n]{0,40}?" + _BY_SLURM
    notice = rb"\*\*\* (?:JOB %d ON|STEP %d\.\S+ ON(?=[^\n]{0,120}? CANCELLED AT %s))[^\n]{0,120}? CANCELLED AT (\S+)"
    for found in re.finditer(notice % (job.job_id, job.job_id, step), text):
        when = stamp(found[1])
        if when is not None and _within(aware(when), job):
            return found.start()
    return None


def _within(when: datetime, job: Job) -> bool:
    """In this attempt: an earlier one of the same id may have left its notice in the same log."""
    begun = job.start is not None and when >= job.start
    return begun and (job.end is None or when <= job.end + _CLOCKS)


__all__ = ["Marks", "begin_of", "marks_in"]
