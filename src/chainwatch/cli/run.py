"""`chainwatch run`: the daemon."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.cli.words import one_of


class Level(StrEnum):
    """What is not said any more below it."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="Configuration: a file, or a directory of files.")],
    observe: Annotated[bool, typer.Option("--observe", help="Change nothing outside; say what would be done.")] = False,
    once: Annotated[bool, typer.Option("--once", help="One pass, then exit (for cron or scrontab).")] = False,
    json: Annotated[bool | None, typer.Option("--json/--human", help="Log as JSON [in a pipe], or for people.")] = None,
    level: Annotated[
        Level,
        typer.Option("--log-level", metavar="LEVEL", parser=one_of(Level), help="debug, info, warning or error."),
    ] = Level.INFO,
    debug: Annotated[bool, typer.Option("--debug", help="Log more, and show tracebacks.")] = False,
    state: common.State = None,
) -> None:
    """Look after the chains of CONFIG until SIGTERM; SIGHUP reads CONFIG again.

    Exit codes: 0 stopped in good order; 2 the configuration or the database cannot be used; 3 another daemon has the
    lease; 4 (only with --once) Slurm gave no answer.
    """
    from functools import partial

    from chainwatch.cli.companions import BesideTheLoop
    from chainwatch.supervisor.daemon import Daemon, Flags
    from chainwatch.supervisor.logging import configure

    configure("debug" if debug else level, "auto" if json is None else "json" if json else "human", sys.stderr)
    companions = partial(BesideTheLoop, page=not once)
    Daemon(Flags(config, state, common.database(), observe, once, companions)).run()
