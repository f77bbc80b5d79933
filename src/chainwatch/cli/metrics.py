"""`chainwatch metrics`: the metrics without a server, from the store alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.cli.words import whole


def metrics(
    textfile: Annotated[
        Path | None,
        typer.Option(
            "--textfile", metavar="FILE", help="Write node_exporter's format to this .prom file, by a rename."
        ),
    ] = None,
    openmetrics: Annotated[bool, typer.Option("--openmetrics", help="Print OpenMetrics.")] = False,
    max_chains: Annotated[
        int, typer.Option("--max-chains", metavar="N", parser=whole(1), help="Most chains with series of their own.")
    ] = 200,
    state: common.State = None,
) -> None:
    """Print the metrics, or write them for node_exporter. What only the running loop knows (polls, blindness) is not
    among them. Exit code 2: the state or the file cannot be used."""
    from chainwatch.web import metrics as rendering
    from chainwatch.web.view import look

    if openmetrics and textfile is not None:
        common.fail("a textfile has node_exporter's own format: --openmetrics is for what is printed")
    with common.opened(state) as store:
        view = look(store, common.now(), None)
    try:
        if textfile is not None:
            rendering.write_textfile(textfile, view, max_chains=max_chains)
            return
        sys.stdout.buffer.write(rendering.render(view, max_chains=max_chains, open_metrics=openmetrics))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        common.fail(f"cannot write {textfile or 'the output'}: {error.strerror or os.strerror(error.errno or 0)}")
