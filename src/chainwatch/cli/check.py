"""`chainwatch check`: is this configuration right?"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.config import ConfigError, load, schema
from chainwatch.supervisor.rules import RULES


def check(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="Configuration: a file, or a directory of files.")
    ] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a configuration.")] = False,
    json: common.Json = False,
) -> None:
    """Say everything that is wrong with a configuration, with file and line.

    Exit codes: 0 it is right, also where it has no chains or there are warnings; 2 it is not.
    """
    if show_schema:
        common.print_json(schema())
        return
    if config is None:
        common.fail("name a configuration to check, or --schema")
    try:
        loaded = load(config, RULES)
    except ConfigError as e:
        if json:
            common.print_json({"ok": False, "problems": [asdict(p) for p in e.problems]})
        else:
            for problem in e.problems:
                typer.echo(str(problem), err=True)
        raise typer.Exit(common.UNUSABLE) from None
    missing = [
        f"{n}: the batch script {c.batch} is not there"
        for n, c in loaded.config.chains.items()
        if not os.path.exists(c.batch)
    ]
    if not loaded.config.chains:
        missing.append("it has no chains: nothing is looked after but what `chainwatch sbatch` and `adopt` register")
    if json:
        common.print_json({"ok": True, "chains": list(loaded.config.chains), "warnings": missing})
        return
    for warning in missing:
        typer.echo(f"warning: {warning}", err=True)
    count = len(loaded.config.chains)
    typer.echo(f"{config}: right; {count or 'no'} chain{'s' * (count != 1)}")
