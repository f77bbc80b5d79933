"""`chainwatch job-side FILE`: the job side as one file, for nodes and containers with other Pythons."""

from __future__ import annotations

from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.job.bundle import write_bundle


def job_side(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it.")],
    python: Annotated[
        str, typer.Option("--python", metavar="COMMAND", help="Interpreter of its first line.")
    ] = "/usr/bin/env python3",
    json: common.Json = False,
) -> None:
    """Write `exec`, `latest` and `verify` as one file that any Python from 3.8 on runs.

    Exit code 2: it cannot be written, or FILE is something else than an earlier one.
    """
    try:
        size = write_bundle(file, python)
    except OSError as error:
        common.fail(f"cannot write {file}: {error.strerror or error}")
    if json:
        common.print_json({"file": file, "bytes": size})
        return
    typer.echo(f"{file}: {size // 1024} KB; in a batch script: srun {file} exec -- COMMAND")
