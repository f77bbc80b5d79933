"""Whether somebody looks after a state directory: a chain that was registered there would otherwise wait for ever."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import typer

from chainwatch.cli import common
from chainwatch.store import Store
from chainwatch.store.records import LAST_PASS

_TIMER = timedelta(minutes=30)
"""So long after a pass of `run --once` the next one is expected."""


def warn_unattended(store: Store, where: Path, chain: str) -> None:
    """One line on stderr where no daemon runs for this state directory, and no timer does its passes."""
    if not attended(store, common.now()):
        typer.echo(
            f"chainwatch: no daemon runs for {where}: nobody looks after {chain} until `chainwatch run` is started there",
            err=True,
        )


def attended(store: Store, now: datetime) -> bool:
    """A daemon has the lease, or `run --once` made a pass not long ago."""
    if store.at_work(now):
        return True
    last = store.recall(LAST_PASS)
    return isinstance(last, str) and now - datetime.fromisoformat(last) < _TIMER
