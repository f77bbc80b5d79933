"""`chainwatch check`: is this configuration right?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.config import ConfigError, Problem, load, schema
from chainwatch.config.site import SITE_FILE, SiteError, apply, load_site
from chainwatch.supervisor import scripts
from chainwatch.supervisor.rules import with_scripts


def check(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="Configuration: a file, or a directory of files.")
    ] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a configuration.")] = False,
    json: common.Json = False,
) -> None:
    """Say everything that is wrong with a configuration, with file and line, and what the site's limits change in it.

    Exit codes: 0 it is right, also where it has no chains or there are warnings; 2 it is not, or the site's file cannot be
    used: a daemon would not start.
    """
    if show_schema and config is not None:
        common.fail("--schema is of every configuration: leave the file out, or leave --schema out to check it")
    if show_schema:
        common.print_json(schema())
        return
    if config is None:
        common.fail("name a configuration to check, or --schema")
    try:
        loaded, limited = apply(load_site(), load(config, with_scripts()).config)
    except (ConfigError, SiteError) as e:
        problems = e.problems if isinstance(e, ConfigError) else [Problem(str(SITE_FILE), None, "", str(e))]
        if json:
            common.print_json({"ok": False, "problems": [asdict(p) for p in problems]})
        else:
            typer.echo(str(e), err=True)
        raise typer.Exit(common.UNUSABLE) from None
    warnings = [*limited, *scripts.warnings(loaded)]
    count = len(loaded.chains)
    if not count:
        warnings.append("it has no chains: nothing is looked after but what `chainwatch sbatch` and `adopt` register")
    if json:
        common.print_json({"ok": True, "chains": list(loaded.chains), "warnings": warnings})
        return
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{config}: right; {count or 'no'} chain{'s' * (count != 1)}")
