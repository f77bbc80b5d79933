"""A run directory that is looked at again and again while nothing happens: a few stats instead of a walk.

What is asked for is a report that is good enough to wait with. A save that begins makes an entry in the run directory, a
save that goes on writes into the newest step, so their times tell whether anything happened. Before a checkpoint is used,
ask without this: an older step may have been touched.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, Hashable, Optional, Tuple

from chainwatch.checkpoints.cache import SETTLED
from chainwatch.checkpoints.files.base import identity
from chainwatch.model.checkpoint import RunReport, Status

Seen = Tuple[Tuple[str, Optional[Tuple[int, ...]]], ...]


class IdleReports:
    """The last report of each run directory, as long as the run directory and its newest step are the same."""

    def __init__(self, settled: float = SETTLED, limit: int = 10_000) -> None:
        self._settled = settled
        self._limit = limit
        self._known: Dict[Hashable, Tuple[Seen, RunReport]] = {}

    def report(self, path: str, how: Hashable, judge: Callable[[], RunReport], fresh: bool) -> RunReport:
        """The report of a moment ago, else `judge()`.

        Args:
            how: everything else that the answer depends on (format, rule, settle).
            fresh: False where a report of a moment ago will do.

        Raises what `judge` raises.
        """
        key = (path, how)
        known = self._known.get(key)
        if known is not None and not fresh and known[0] == _seen(known[1]):
            return known[1]
        begun = time.time()
        report = judge()
        self._known.pop(key, None)
        seen = _seen(report)
        newest = max((max(each[3:]) / 1e9 for _, each in seen if each is not None), default=0.0)
        growing = any(each.status is Status.IN_PROGRESS for each in report.checkpoints)
        if not growing and begun - newest > self._settled:
            while len(self._known) >= self._limit:
                del self._known[next(iter(self._known))]
            self._known[key] = (seen, report)
        return report


def _seen(report: RunReport) -> Seen:
    """The identity of the newest step, and of each directory from the run directory down to the one it lies in."""
    paths = [report.path]
    if report.checkpoints:
        newest = report.checkpoints[-1].path
        below = os.path.relpath(newest, report.path).split(os.sep)
        if below[0] != "..":
            paths += [os.path.join(report.path, *below[: depth + 1]) for depth in range(len(below)) if below != ["."]]
    return tuple((path, _identity(path)) for path in paths)


def _identity(path: str) -> Optional[Tuple[int, ...]]:
    try:
        return identity(os.stat(path))
    except (OSError, ValueError):
        return None
