"""Following logs while they grow: a poll costs what is new, whatever the size of the file.

The state of it all is a small value that is handed in and out, so that any reader process can go on where another one
left off, and a reader that hangs takes nothing with it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from chainwatch.evidence.logs.attempt import attempt_start
from chainwatch.evidence.progress import ProgressReader, Reached

_ATTACH = 1 << 18
"""Bytes at the end of a log that are read when it is first seen, and of what grew when that is more."""
_MOST_NEW = 4 << 20
_ANCHOR = 48
"""Bytes before the offset that must still be there: a file that was cut and grew again has others."""
_UNFINISHED = 1 << 16
_SLACK = timedelta(minutes=2)
_SAMPLES = 32
_RECENT = timedelta(minutes=30)
"""The rate is taken over this much of the past."""


class Phase(StrEnum):
    """What a running attempt is at, as far as it says."""

    STARTUP = "startup"
    TRAINING = "training"
    EVALUATION = "evaluation"
    SAVING = "saving"


_MARKS = re.compile(
    rb"(?P<evaluation>\b(?:[Ee]valuat(?:ing|ion)|[Rr]unning [Ee]val|[Vv]alidat(?:ing|ion)|[Tt]esting DataLoader"
    rb"|[Gg]enerating samples)\b)"
    rb"|(?P<saving>\b(?:[Ss]aving (?:model|checkpoint|state|current|the)|[Ss]ave_checkpoint|[Ss]aving:"
    rb"|[Ss]tarting (?:to )?save)\b)"
    rb"|(?P<startup>\b(?:(?:will restart|[Rr]estarting|Starting|Rendezvous'ing) worker group)\b)"  # torchrun, ft_launcher
)


_RESTARTS = re.compile(rb"\b(?:will restart|[Rr]estarting) worker group\b")
"""A launcher says that it starts its workers again inside the same job; torchrun says it once a node and restart."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the reading of one file stands."""

    device: int
    inode: int
    offset: int
    """Bytes read, up to the end of a line."""
    size: int
    modified: int
    """mtime in nanoseconds, as it was seen."""
    anchor: bytes = b""
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    tokens: int | None = None
    phase: Phase | None = None
    restarts: int = 0
    """How often a launcher restarted the workers, as far as this file was read."""


@dataclass(frozen=True, slots=True)
class Following:
    """What is known of one attempt from one poll to the next."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    samples: tuple[tuple[float, int], ...] = ()
    """Epoch seconds at which a new step was first seen, and that step; oldest first."""

    @property
    def step(self) -> int | None:
        return self.samples[-1][1] if self.samples else None

    @property
    def step_at(self) -> datetime | None:
        return datetime.fromtimestamp(self.samples[-1][0], UTC) if self.samples else None

    def newest(self) -> Cursor | None:
        """The file that tells the highest step."""
        telling = [c for c in self.cursors.values() if c.step is not None]
        return max(telling, key=lambda c: c.step or 0, default=None)

    def rate(self, now: datetime) -> float | None:
        """Steps per second over the recent past, a standstill included; None where one step is all that is known."""
        limit = now.timestamp() - _RECENT.total_seconds()
        recent = [s for s in self.samples if s[0] >= limit]
        recent = recent if len(recent) > 1 else list(self.samples[-2:])
        if len(recent) < 2:
            return None
        (begin, first), (end, last) = recent[0], recent[-1]
        usual = (end - begin) / (len(recent) - 1)
        silent = now.timestamp() - end
        span = end - begin + (silent if silent > 3 * usual else 0.0)
        return (last - first) / span if span > 0 and last > first else None

    def told(self, step: int | None, now: datetime) -> Following:
        """With the step that was read at `now`. A step that goes back (a restart within the job) begins anew."""
        if step is None or step == self.step:
            return self
        kept = () if self.step is not None and step < self.step else self.samples[1 - _SAMPLES :]
        return replace(self, samples=(*kept, (now.timestamp(), step)))

    def life(self) -> str:
        """A text that changes whenever any of the files does: life needs no clock."""
        return ";".join(f"{c.inode}:{c.size}:{c.modified}" for _, c in sorted(self.cursors.items()))


def follow(
    following: Following,
    paths: Sequence[str],
    reader: ProgressReader,
    now: datetime,
    since: datetime | None = None,
) -> Following:
    """Read what is new in these logs. `since`: when the attempt began; older text is not its own.

    A file that is not there (yet) is passed over, and so is one that is no regular file; a file that cannot be read
    keeps what was known of it. Storage that hangs hangs here: call it where that hurts nobody.
    """
    cursors = {path: c for path, c in following.cursors.items() if path in paths}
    for path in paths:
        try:
            cursor = _look(path, cursors.get(path), reader, since)
        except FileNotFoundError:
            cursors.pop(path, None)
            continue
        except OSError:
            continue
        if cursor is not None:
            cursors[path] = cursor
    newest = replace(following, cursors=cursors)
    best = newest.newest()
    return newest.told(best.step if best else None, now)


def _look(path: str, known: Cursor | None, reader: ProgressReader, since: datetime | None) -> Cursor | None:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        return None
    same = known is not None and (known.device, known.inode) == (status.st_dev, status.st_ino)
    if known is not None and same and (known.size, known.modified) == (status.st_size, status.st_mtime_ns):
        return known
    if since is not None and status.st_mtime < (since - _SLACK).timestamp():
        return Cursor(status.st_dev, status.st_ino, status.st_size, status.st_size, status.st_mtime_ns)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if known is None or not same or not _still_there(fd, known, status.st_size):
            known = None
        return _read_on(fd, status, known, reader, since)
    finally:
        os.close(fd)


def _still_there(fd: int, known: Cursor, size: int) -> bool:
    """The file only grew."""
    if size < known.offset:
        return False
    start = known.offset - len(known.anchor)
    return os.pread(fd, len(known.anchor), start) == known.anchor


def _read_on(
    fd: int, status: os.stat_result, known: Cursor | None, reader: ProgressReader, since: datetime | None
) -> Cursor:
    size = status.st_size
    start = known.offset if known is not None else max(0, size - _ATTACH)
    if size - start > _MOST_NEW:
        start = size - _ATTACH
    text = os.pread(fd, size - start, start)
    end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    if len(text) - end > _UNFINISHED:
        end = len(text)
    whole = text[:end]
    if known is None and since is not None:
        year = datetime.fromtimestamp(status.st_mtime, UTC).year
        whole = whole[attempt_start(whole, since, year) :]
    reached = reader.newest(whole)
    before = known or Cursor(0, 0, 0, 0, 0)
    anchor = (
        text[max(0, end - _ANCHOR) : end] if end >= _ANCHOR else os.pread(fd, _ANCHOR, max(0, start + end - _ANCHOR))
    )
    return Cursor(
        status.st_dev, status.st_ino, start + end, size, status.st_mtime_ns, anchor[: start + end],
        step=reached.step if reached else before.step,
        total=reached.total if reached and reached.total is not None else before.total,
        loss=reached.loss if reached and reached.loss is not None else before.loss,
        tokens=reached.tokens if reached and reached.tokens is not None else before.tokens,
        phase=_phase(whole, reached, before.phase),
        restarts=before.restarts + sum(1 for _ in _RESTARTS.finditer(whole)),
    )  # fmt: skip


def _phase(text: bytes, reached: Reached | None, before: Phase | None) -> Phase | None:
    """The last mark after the newest step; the step itself means training."""
    tail = text
    if reached is not None:
        end = text.find(b"\n", reached.position)
        tail = text[end:] if end >= 0 else b""
    last = None
    for mark in _MARKS.finditer(tail[-_UNFINISHED:]):
        last = mark.lastgroup
    if last is not None:
        return Phase(last)
    return Phase.TRAINING if reached is not None else before
