"""`chainwatch lint SCRIPT`: known gaps of a batch script."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions import beforehand
from chainwatch.cli import common
from chainwatch.config import Chain
from chainwatch.doctor.finding import Level
from chainwatch.doctor.lint import Site
from chainwatch.doctor.lint import lint as findings_of
from chainwatch.model.plain_file import text_of
from chainwatch.model.text import clean


def lint(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The batch script.")],
    chain: Annotated[
        str | None,
        typer.Option(
            "--chain",
            metavar="CHAIN",
            help="A chain that runs it: its saves are weighed against its failures.",
            callback=common.utf8,
        ),
    ] = None,
    state: common.State = None,
    as_json: common.Json = False,
) -> None:
    """Find known gaps of a batch script. It is read, never run.

    Exit codes: 0 no problem (there may be advice); 1 problems, or no such chain; 2 the script cannot be read.
    """
    try:
        text = text_of(script)
    except OSError as error:
        common.fail(f"cannot read {script}: {error.strerror}")
    site, settings = _of_chain(chain, state)
    settings = settings or Chain(batch=script.absolute())
    missing = beforehand.missing_log_directories(settings, text, str(settings.directory or os.getcwd()))
    found = findings_of(text, replace(site, missing_log_directories=missing))
    if as_json:
        common.print_json([asdict(finding) for finding in found])
    elif not found:
        typer.echo(f"{script}: nothing found")
    else:
        for finding in found:
            where = f"{script}:{finding.line}" if finding.line else str(script)
            typer.echo(f"{where}: {finding.level}: {clean(finding.what, 300)} [{finding.code}]")
            typer.echo(f"    why:  {finding.why}\n    mend: {finding.mend}")
    if any(finding.level is Level.PROBLEM for finding in found):
        raise typer.Exit(1)


def _of_chain(chain: str | None, state: Path | None) -> tuple[Site, Chain | None]:
    if chain is None:
        return Site(), None
    from chainwatch.doctor.past import of_chain

    with common.opened(state) as store:
        settings = Chain.stored(common.known_chain(store, chain).settings)
        past = of_chain(store, chain)
    assert past is not None, "the chain is known"
    site = Site(between_failures=past.between_failures, save_every=past.save_every, save_takes=past.save_takes)
    return site, settings
