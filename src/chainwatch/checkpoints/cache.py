"""What was found of a file, kept as long as the file is the same: device, inode, size, mtime and ctime.

    >>> from chainwatch.checkpoints import verify
    >>> from chainwatch.checkpoints.cache import FindingCache
    >>> cache = FindingCache()
    >>> verify("/scratch/me/run7", examine_file=cache)      # doctest: +SKIP
    >>> verify("/scratch/me/run7", examine_file=cache)      # only stats: no file is opened again      # doctest: +SKIP

A file that changed within the last seconds is not kept: it could change again without a new time (the racy rule of git).
"""

from __future__ import annotations

import os
import time

from chainwatch.checkpoints.files import Fault, Finding, examine
from chainwatch.checkpoints.files.base import identity

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Sequence, Tuple

    Key = Tuple[Any, ...]

SETTLED = 3.0
"""Seconds that a file must have been unchanged (the coarsest time stamps of real file systems are 2 s)."""
LIMIT = 200_000
"""Files that are remembered; beyond it the oldest are forgotten."""
VERSION = 1
MAX_FACTS = 4_096
"""Characters of the facts of one file that go into the cache file; larger ones are read anew."""


class Kept:
    """Answers that took several files (the chunks of an array, an index with its shards), by the identities of all of
    them. In memory only."""

    def __init__(self, settled: float = SETTLED) -> None:
        self._settled = settled
        self._answers: Dict[Key, Any] = {}
        self._weight = 0

    def get(self, key: Key) -> Any:
        """What was put there, else None."""
        return self._answers.get(key)

    def put(self, key: Key, answer: Any, infos: Sequence[os.stat_result]) -> None:
        """Keep an answer about files with these attributes, if none of them changed just now."""
        newest = max((max(info.st_mtime, info.st_ctime) for info in infos), default=0.0)
        if time.time() - newest <= self._settled:
            return
        self._weight += len(infos)
        if self._weight > LIMIT:
            self._answers.clear()
            self._weight = len(infos)
        self._answers[key] = answer


class FindingCache:
    """Takes the place of `examine`; `load` and `save` keep it in a file between processes."""

    def __init__(self, limit: int = LIMIT, settled: float = SETTLED) -> None:
        self._limit = limit
        self._settled = settled
        self._found: Dict[Key, Tuple[bool, Finding]] = {}
        self.kept = Kept(settled)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._found)

    def __call__(
        self,
        path: str,
        deep: bool = False,
        kind: Optional[str] = None,
        progress: Optional[Callable[[int], None]] = None,
    ) -> Finding:
        """As `examine`. A deep finding also answers a quick question, not the other way round."""
        key = _key(path, kind)
        known = self._found.get(key) if key is not None else None
        if known is not None and (known[0] or not deep):
            self.hits += 1
            return known[1]
        self.misses += 1
        finding = examine(path, deep, kind, progress)
        if key is not None and key == _key(path, kind) and _rests(key, self._settled) and _is_lasting(finding):
            self._found.pop(key, None)
            self._found[key] = (deep, finding)
            while len(self._found) > self._limit:
                del self._found[next(iter(self._found))]
        return finding

    def save(self, path: str) -> None:
        """Write it to a file, whole or not at all (a temporary name, then a rename). Raises OSError."""
        import json

        rows = []
        for key, (deep, finding) in self._found.items():
            facts = json.dumps(finding.facts, default=str)
            if len(facts) <= MAX_FACTS:
                rows.append([list(key), deep, [*finding[:1], finding.faults, *finding[2:4], facts]])
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as out:
            json.dump({"version": VERSION, "files": rows}, out)
        os.replace(temporary, path)

    def load(self, path: str) -> bool:
        """Read what `save` wrote; False, and nothing changes, where there is no such file or it makes no sense."""
        import json

        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                value = json.load(file)
            if value["version"] != VERSION:
                return False
            found: Dict[Key, Tuple[bool, Finding]] = {}
            for key, deep, (kind, faults, warnings, checksummed, facts) in value["files"]:
                told = tuple(Fault(*fault) for fault in faults)
                found[tuple(key)] = (bool(deep), Finding(kind, told, tuple(warnings), checksummed, json.loads(facts)))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False
        self._found.update(found)
        return True


def _key(path: str, kind: Optional[str]) -> Optional[Key]:
    try:
        return (*identity(os.stat(path)), kind or "", os.path.basename(path))
    except (OSError, ValueError):
        return None


def _rests(key: Key, seconds: float) -> bool:
    newest: float = max(key[3], key[4]) / 1e9
    return time.time() - newest > seconds


def _is_lasting(finding: Finding) -> bool:
    """Permission and I/O errors may be gone the next time, though the file is the same."""
    return not any(fault.code in ("unreadable", "changed") for fault in finding.faults)
