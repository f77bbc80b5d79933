"""`chainwatch check`: is this configuration right?"""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions import beforehand
from chainwatch.cli import common
from chainwatch.config import Config, ConfigError, Problem, load, schema
from chainwatch.doctor.script import read
from chainwatch.model.plain_file import text_of
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
        problems, warnings = _scripts(loaded)
    except ConfigError as e:
        problems, warnings = e.problems, []
    if problems:
        if json:
            common.print_json({"ok": False, "problems": [asdict(p) for p in problems]})
        else:
            for problem in problems:
                typer.echo(str(problem), err=True)
        raise typer.Exit(common.UNUSABLE)
    count = len(loaded.chains)
    if not count:
        warnings.append("it has no chains: nothing is looked after but what `chainwatch sbatch` and `adopt` register")
    if json:
        common.print_json({"ok": True, "chains": list(loaded.chains), "warnings": warnings})
        return
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{config}: right; {count or 'no'} chain{'s' * (count != 1)}")


def _scripts(config: Config) -> tuple[list[Problem], list[str]]:
    """What the chains' batch scripts bring with them: problems, and warnings."""
    problems, warnings = [], []
    script = cache(text_of)  # a thousand chains share one script
    for name, chain in config.chains.items():
        try:
            text = script(chain.batch)
        except OSError as e:
            why = f"cannot be read: {e.strerror}" if os.path.exists(chain.batch) else "is not there"
            warnings.append(f"{name}: the batch script {chain.batch} {why}")
            continue
        if why := beforehand.parallel(beforehand.submitted_with(chain, text, "array")):
            problems.append(Problem(str(chain.batch), read(text).option_lines.get("array"), f"chains.{name}", why))
        if missing := beforehand.missing_log_directories(chain, text, str(chain.directory)):
            warnings.append(f"{name}: {beforehand.without_logs(missing)}")
    return problems, warnings
