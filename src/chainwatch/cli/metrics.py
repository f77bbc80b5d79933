"""`chainwatch metrics`: the metrics without a server, from the store alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_STATE = Path("~/.local/state/chainwatch")


def metrics(
    state: Annotated[Path, typer.Option("--state", help="State directory.", envvar="CHAINWATCH_STATE")] = DEFAULT_STATE,
    textfile: Annotated[
        Path | None, typer.Option("--textfile", help="Write node_exporter's format to this .prom file, by a rename.")
    ] = None,
    openmetrics: Annotated[bool, typer.Option("--openmetrics", help="Print OpenMetrics.")] = False,
    max_chains: Annotated[int, typer.Option(min=1, help="Most chains with series of their own.")] = 200,
) -> None:
    """Print the metrics, or write them for node_exporter. What only the running loop knows (polls, blindness) is not
    among them. Exit code 2: the state or the file cannot be used."""
    from chainwatch.model.clock import SystemClock
    from chainwatch.store import StoreError, open_store
    from chainwatch.web import metrics as rendering
    from chainwatch.web.view import look

    try:
        store = open_store(state.expanduser(), create=False)
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    try:
        view = look(store, SystemClock().now(), None)
        if textfile is not None:
            rendering.write_textfile(textfile, view, max_chains=max_chains)
            return
        sys.stdout.buffer.write(rendering.render(view, max_chains=max_chains, open_metrics=openmetrics))
        sys.stdout.buffer.flush()
    except OSError as error:
        typer.echo(
            f"cannot write {textfile or 'the output'}: {error.strerror or os.strerror(error.errno or 0)}", err=True
        )
        raise typer.Exit(2) from None
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    finally:
        store.close()
