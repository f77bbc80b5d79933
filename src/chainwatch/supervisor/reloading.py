"""What a reload means: which settings stay until a restart, what is told to who asked, and when the site's file calls
for one by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from chainwatch.config.models import Config
from chainwatch.config.site import SITE_FILE
from chainwatch.model.text import some
from chainwatch.store import Store

ANSWER = "reload"
"""Memory of the store: what the newest reload came to."""
FIXED = ("state", "database", "slurm")
"""Settings that everything stands on: they change with a restart only."""
FIXED_BEFORE_SLURM = ("state", "database")
"""The same while Slurm has not answered yet: the way to it may be what is wrong."""


def cannot_change(old: Config, new: Config, fixed: Sequence[str] = FIXED) -> str:
    """Why a new configuration cannot be taken over by a daemon at work; empty if it can."""
    if old.chains and not new.chains:
        return "it names no chain (is it being written?): to let every chain go, stop the daemon"
    other = [name for name in fixed if getattr(old, name) != getattr(new, name)]
    return f"{', '.join(other)} cannot change while the daemon runs: restart it" if other else ""


def difference(old: Config, new: Config) -> str:
    """What is new, in a sentence for people."""
    added = sorted(new.chains.keys() - old.chains.keys())
    gone = sorted(old.chains.keys() - new.chains.keys())
    changed = sorted(name for name in old.chains.keys() & new.chains.keys() if old.chains[name] != new.chains[name])
    count = len(new.chains)
    parts = [f"{count} chain{'s' * (count != 1)}"]
    parts += [
        f"{word} {some(names)}" for word, names in (("new", added), ("changed", changed), ("gone", gone)) if names
    ]
    return "the configuration was read again: " + "; ".join(parts)


def answer(store: Store, now: datetime, problem: str, said: str) -> None:
    """Keep what the reload came to, for the command that asked."""
    store.remember(ANSWER, {"at": now.isoformat(), "problem": problem, "said": said})


def answered(store: Store) -> dict[str, Any]:
    """What the newest reload came to; empty before the first."""
    found = store.recall(ANSWER)
    return found if isinstance(found, dict) else {}


class SiteFile:
    """Notices that the site's limits changed: they hold without anybody asking for a reload."""

    def __init__(self, path: Path = SITE_FILE) -> None:
        self._path = path
        self._seen = self._stamp()

    def changed(self) -> bool:
        """Since the last question."""
        before, self._seen = self._seen, self._stamp()
        return before != self._seen

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_uid, found.st_mode
