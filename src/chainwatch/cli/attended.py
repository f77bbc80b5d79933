"""Whether somebody looks after a state directory: a chain that was registered there would otherwise wait for ever."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import typer

from chainwatch.cli import common
from chainwatch.config.place import WINS
from chainwatch.model.plain_file import may_exist
from chainwatch.store import Store
from chainwatch.store.records import CONFIGURATION, LAST_PASS

NONE_AT_WORK = "no daemon is at work on this state: `chainwatch run CONFIG` starts one"
_TIMER = timedelta(minutes=30)
"""So long after a pass of `run --once` the next one is expected."""


def warn_unattended(store: Store, where: Path, chain: str) -> None:
    """One line on stderr where no daemon runs for this state directory, and no timer does its passes."""
    if not attended(store, common.now()):
        typer.echo(
            f"chainwatch: no daemon runs for {where}: nobody looks after {chain} until `chainwatch run` is started there",
            err=True,
        )


def warn_of_another(store: Store, config: Path, chain: str) -> None:
    """One line on stderr where the daemon of this state goes by another configuration than the one that was named."""
    if (theirs := another_configuration(store, config)) and may_exist(theirs):
        mine = os.path.abspath(os.path.expanduser(config))
        typer.echo(
            f"chainwatch: this state's configuration is {theirs}: edits of {mine} do not reach {chain} there. Give one "
            "of them a `state` of its own, or move the chain",
            err=True,
        )


def warn_of_another_state(store: Store, where: Path, configured: Path, chain: str) -> None:
    """One line on stderr where a chain goes into another state than its configuration says, and nobody is there yet: a
    daemon that is started without `--state` and CHAINWATCH_STATE, as a service is, does not see it."""
    if os.path.realpath(where) != os.path.realpath(configured) and not attended(store, common.now()):
        typer.echo(
            f"chainwatch: {chain} is in {where}: {WINS} {configured}. Write `state: {where}` into it for a daemon that is "
            "started without them, or submit without them",
            err=True,
        )


def another_configuration(store: Store, config: Path) -> str | None:
    """The configuration of this state, where it is another one than `config`; None where it is that, or not known."""
    theirs, mine = store.recall(CONFIGURATION), os.path.abspath(os.path.expanduser(config))
    if not isinstance(theirs, str) or os.path.realpath(theirs) == os.path.realpath(mine):
        return None
    return theirs


def daemon_line(store: Store, now: datetime) -> str:
    """Who looks after this state, or that nobody does: a lease outlives a daemon that was killed."""
    if holder := store.at_work(now):
        return f"the daemon is {holder}"
    lease = store.lease()
    if lease is not None and lease.until > now:
        return f"the daemon {lease.holder} is gone: `chainwatch run CONFIG` (or its service) starts one again"
    return NONE_AT_WORK


def attended(store: Store, now: datetime) -> bool:
    """A daemon has the lease, or `run --once` made a pass not long ago."""
    if store.at_work(now):
        return True
    last = store.recall(LAST_PASS)
    return isinstance(last, str) and now - datetime.fromisoformat(last) < _TIMER
