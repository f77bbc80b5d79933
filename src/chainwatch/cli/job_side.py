"""`chainwatch job-side FILE`: the job side as one file, for nodes and containers with other Pythons."""

from __future__ import annotations

from typing import Annotated

import typer

from chainwatch.job.bundle import write_bundle


def job_side(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it.")],
    python: Annotated[str, typer.Option(help="Interpreter of its first line.")] = "/usr/bin/env python3",
) -> None:
    """Write `exec`, `latest` and `verify` as one file that any Python from 3.8 on runs."""
    size = write_bundle(file, python)
    typer.echo(f"{file}: {size // 1024} KB; in a batch script: srun {file} exec -- COMMAND")
