"""`chainwatch runbook [NAME]`: what an alert means and what to do, without a network."""

from __future__ import annotations

import difflib
from importlib.resources import files
from typing import Annotated

import typer

from chainwatch.cli.common import NO, Json, fail, print_json


def pages() -> dict[str, str]:
    """The runbook's pages by the names that alerts give."""
    found = files("chainwatch.alerts").joinpath("runbook").iterdir()
    return {page.name.removesuffix(".md"): page.read_text("utf-8") for page in found if page.name.endswith(".md")}


def runbook(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the page, as the alert gives it.")] = None,
    json: Json = False,
) -> None:
    """Print what an alert means and what to do. Without a name: the list. Exit code 1: there is no such page."""
    known = pages()
    titles = {page: text.splitlines()[0].lstrip("# ") for page, text in sorted(known.items())}
    if name is None:
        if json:
            print_json([{"name": page, "title": title} for page, title in titles.items()])
            return
        for page, title in titles.items():
            typer.echo(f"{page:<16}{title}")
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`chainwatch runbook` lists them"
        fail(f"the runbook has no page {name!r}; {hint}", NO)
    if json:
        print_json({"name": name, "title": titles[name], "text": known[name]})
    else:
        typer.echo(known[name], nl=False)
