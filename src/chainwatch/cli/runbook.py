"""`chainwatch runbook [NAME]`: what an alert means and what to do, without a network."""

from __future__ import annotations

import difflib
from importlib.resources import files
from typing import Annotated

import typer

from chainwatch.cli.common import NO, fail


def pages() -> dict[str, str]:
    """The runbook's pages by the names that alerts give."""
    found = files("chainwatch.alerts").joinpath("runbook").iterdir()
    return {page.name.removesuffix(".md"): page.read_text("utf-8") for page in found if page.name.endswith(".md")}


def runbook(
    name: Annotated[str | None, typer.Argument(help="Name of the page, as the alert gives it.")] = None,
) -> None:
    """Print what an alert means and what to do. Without a name: the list. Exit code 1: there is no such page."""
    known = pages()
    if name is None:
        for page, text in sorted(known.items()):
            typer.echo(f"{page:<16}{text.splitlines()[0].lstrip('# ')}")
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`chainwatch runbook` lists them"
        fail(f"the runbook has no page {name!r}; {hint}", NO)
    typer.echo(known[name], nl=False)
