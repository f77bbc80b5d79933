"""What the loop and each chain's step work with: handed in once, so that everything can be replaced in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from chainwatch.actions.audit import Audit
from chainwatch.config.models import Chain, Config
from chainwatch.config.site import Site, held_back, tightened
from chainwatch.model.chain import Mode
from chainwatch.model.clock import Clock
from chainwatch.model.plain_file import read_plain
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord, Lease
from chainwatch.supervisor.environments import of_chain
from chainwatch.supervisor.probes import Probes
from chainwatch.supervisor.readers import Readers

Say = Callable[[str, ChainRecord, Mapping[str, object]], None]
"""Told one human sentence per chain that changed, with the facts behind it (cause, attempt, decision …)."""


def silent(sentence: str, record: ChainRecord, facts: Mapping[str, object]) -> None:
    del sentence, record, facts


def on_disk(path: str) -> bytes:
    """The bytes of a batch script. Raises OSError."""
    return read_plain(path)


@dataclass(slots=True)
class House:
    """One daemon's world."""

    store: Store
    lease: Lease | None
    """None: a command submits the first job of a chain, beside whatever daemon runs."""
    state: Path
    config: Config
    backends: Mapping[str, Backend]
    readers: Readers
    clock: Clock
    audit: Audit
    user: str
    uid: int | None = None
    """Uid of that user: it tells whether a person cancelled their own job."""
    say: Say = silent
    source: str = ""
    """Path of the configuration; empty where it comes from none."""
    warn: Callable[[str], None] = lambda sentence: None
    """Told what concerns no chain of its own."""
    observe_only: bool = False
    """`--observe`: no chain acts, whatever its mode."""
    site_pause: Callable[[], str] = str
    """Asked at the beginning of each pass: why the site stops all actions (its PAUSE file); empty if it does not."""
    paused_by_site: str = ""
    """What it answered last."""
    site: Site = Site()
    """The site's limits. The configuration is within them already; what commands stored is held to them here."""
    read_script: Callable[[str], bytes] = on_disk
    environment: Callable[[ChainRecord, Chain], tuple[tuple[str, str], ...]] = of_chain
    """The environment of the next sbatch call. Raises `EnvironmentUnusable`."""
    probes: Probes | None = None
    """Looks at the processes of jobs that fell silent; None: nobody does."""

    _parsed: dict[str, tuple[Mapping[str, Any], Chain]] = field(default_factory=dict)

    def settings(self, record: ChainRecord) -> Chain:
        """The chain's settings, within the site's limits. What is stored is read once for each change."""
        known = self._parsed.get(record.name)
        if known is None or known[0] != record.settings:
            known = self._parsed[record.name] = (record.settings, Chain.stored(record.settings))
        return tightened(self.site, known[1])

    @property
    def settle(self) -> timedelta:
        return self.config.settle

    @property
    def submissions_per_hour(self) -> int | None:
        """Most submissions in an hour; None: as many as a person types, where the site sets no limit.

        A fleet that a drained cluster ended together must be able to come back together.
        """
        if self.lease is None:
            return self.site.submissions_per_hour
        most = self.config.submissions_per_hour
        return max(60, 2 * self.store.count_chains()) if most is None else most

    def held_back_by_site(self, record: ChainRecord) -> str:
        """Why the site lets nobody act for this chain; empty if it does."""
        if self.paused_by_site:
            return f"the site has paused all actions ({self.paused_by_site})"
        checkpoints = record.settings.get("checkpoints")
        return held_back(self.site, checkpoints.get("hand_over") if isinstance(checkpoints, Mapping) else None)

    def may_act(self, record: ChainRecord) -> bool:
        """Whether anything outside may be changed for this chain."""
        held_back = self.observe_only or bool(self.held_back_by_site(record)) or record.released
        return record.mode is Mode.ACT and not held_back

    def why_not(self, record: ChainRecord) -> str:
        """What keeps `may_act` from it."""
        if why := self.held_back_by_site(record):
            return why
        if record.released:
            return "it is not in the configuration any more"
        if self.observe_only:
            return "the daemon only observes (--observe)"
        return "mode observe"
