"""Where in a log this attempt begins: in append mode, and after a requeue, one file holds several attempts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from chainwatch.evidence.logs.text import earlier_in_any_zone, stamp

_NOTICE = re.compile(rb"\*\*\* (?:JOB|STEP) [^\n]{0,120}? AT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)([^\n]*)")
_COMES_BACK = (b"DUE TO JOB REQUEUE", b"DUE TO PREEMPTION", b"DUE TO NODE FAILURE")
"""Ends after which Slurm starts the same job anew, in the same file and soon: by default two minutes later, so that the
slack for clocks would keep the earlier attempt's last words."""
_SLACK = timedelta(minutes=2)
"""Clocks of nodes and controller differ; a cut too early keeps too much, a cut too late loses the proof."""
_PROBE = 16384


def attempt_start(text: bytes, since: datetime, year: int) -> int:
    """Position of the first byte of `text` that may belong to the attempt that began at `since`; 0 where nothing says.

    Two things say it: Slurm's notice that an earlier attempt was cancelled or requeued, and time stamps of lines.
    Nothing is cut unless it is surely older, in local time and in UTC.
    """
    limit = since - _SLACK
    start = 0
    for notice in _NOTICE.finditer(text):
        when = stamp(notice[1])
        back = any(reason in notice[2] for reason in _COMES_BACK)
        if when is None or not earlier_in_any_zone(when, since if back else limit):
            continue
        if earlier_in_any_zone(when, limit) or not _has_begun(text[start : notice.start()], since, year):
            start = notice.end()
    low, high = start, len(text)
    if not _is_older(text, low, limit, year):
        return start
    while high - low > 256:
        middle = (low + high) // 2
        if _is_older(text, middle, limit, year):
            low = middle
        else:
            high = middle
    return _after_last_older(text, low, limit, year)


def _has_begun(text: bytes, since: datetime, year: int) -> bool:
    """The newest time stamp at the end of `text` is not surely older than `since`: this attempt wrote it."""
    for line in reversed(text[-_PROBE:].split(b"\n")[:-1]):
        when = stamp(line, year)
        if when is not None:
            return not earlier_in_any_zone(when, since)
    return False


def _is_older(text: bytes, position: int, limit: datetime, year: int) -> bool:
    """The first time stamp at or after `position` is surely older than `limit`."""
    at = text.find(b"\n", position) + 1 if position else 0
    stop = min(len(text), at + _PROBE)
    while 0 <= at < stop:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        when = stamp(text[at:end], year)
        if when is not None:
            return earlier_in_any_zone(when, limit)
        at = end + 1
    return False


def _after_last_older(text: bytes, position: int, limit: datetime, year: int) -> int:
    """End of the last surely older line in the few lines that the bisection left."""
    at = text.rfind(b"\n", 0, position) + 1
    last = at
    stop = min(len(text), position + _PROBE)
    while at < stop:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        when = stamp(text[at:end], year)
        if when is not None and earlier_in_any_zone(when, limit):
            last = end + 1
        elif when is not None:
            break
        at = end + 1
    return min(last, len(text))
