"""`chainwatch doctor [CONFIG]`: what in the cluster and the set-up will get in the way."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainwatch.cli import common

if TYPE_CHECKING:
    from chainwatch.config import Config
    from chainwatch.doctor import Finding

_SIGNS = {"problem": "✗", "advice": "!", "ok": "✓", "unknown": "?"}


def doctor(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="Configuration to check with it: a file, or a directory of files."),
    ] = None,
    as_json: common.Json = False,
    contract: Annotated[
        bool, typer.Option("--contract", help="Play the reading part of the backends' contract on the cluster too.")
    ] = False,
    state: common.State = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only problems and advice.")] = False,
) -> None:
    """Check the cluster, this machine and the set-up. Nothing is changed, posted or submitted.

    Exit codes: 0 no problem (there may be advice); 1 problems; 2 the configuration cannot be read; 4 Slurm does not answer.
    """
    from chainwatch.config import load
    from chainwatch.config.place import placed
    from chainwatch.doctor import Level, Patient, asker, examine
    from chainwatch.model.clock import SystemClock
    from chainwatch.supervisor.rules import with_scripts

    loaded = None if config is None else placed(load(config, with_scripts()).config, state, common.database())
    patient = Patient(
        asker(loaded), SystemClock().now(), getpass.getuser(), Path.home(), loaded, environment=dict(os.environ)
    )
    found = []
    for finding in chain(examine(patient), _played(loaded) if contract else ()):
        if quiet and finding.level in {Level.OK, Level.UNKNOWN}:
            continue
        found.append(finding)
        if as_json:
            continue
        typer.echo(f"{_SIGNS[finding.level.value]} {finding.what} [{finding.code}]")
        for label, text in (("why", finding.why), ("mend", finding.mend)):
            if text and finding.level is not Level.OK:
                typer.echo(f"    {label + ':':<6}{text}")
    if as_json:
        common.print_json([asdict(finding) for finding in found])
    problems = {finding.code for finding in found if finding.level is Level.PROBLEM}
    if problems:
        raise typer.Exit(4 if "controller" in problems else 1)


def _played(config: Config | None) -> Iterator[Finding]:
    """The reading part of the contract, on each cluster of the configuration."""
    from chainwatch.config.models import Config
    from chainwatch.doctor import Finding, Level, reading_part
    from chainwatch.model.clock import SystemClock
    from chainwatch.slurm import NoInformation
    from chainwatch.supervisor.clusters import backends

    try:
        clusters = backends(config or Config())
    except NoInformation as error:
        yield Finding("contract", Level.UNKNOWN, f"the contract could not be played: {error}")
        return
    for backend in clusters.values():
        yield from reading_part(backend, getpass.getuser(), SystemClock().now)
