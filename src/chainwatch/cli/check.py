"""`chainwatch check`: is this configuration right?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.config import ConfigError, load, schema
from chainwatch.supervisor import scripts
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
        loaded = load(config, RULES).config
    except ConfigError as e:
        if json:
            common.print_json({"ok": False, "problems": [asdict(p) for p in e.problems]})
        else:
            for problem in e.problems:
                typer.echo(str(problem), err=True)
        raise typer.Exit(common.UNUSABLE) from None
    warnings = scripts.warnings(loaded)
    count = len(loaded.chains)
    if not count:
        warnings.append("it has no chains: nothing is looked after but what `chainwatch sbatch` and `adopt` register")
    if json:
        common.print_json({"ok": True, "chains": list(loaded.chains), "warnings": warnings})
        return
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{config}: right; {count or 'no'} chain{'s' * (count != 1)}")
