"""`chainwatch quarantine`, `restore`, `nodes` and `backup`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions import aside
from chainwatch.actions.audit import Audit
from chainwatch.checkpoints import verify
from chainwatch.cli import common, tables
from chainwatch.cli.light import error_text, waits
from chainwatch.model.checkpoint import Status
from chainwatch.recovery import shared


def quarantine(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A damaged checkpoint.")],
    force: Annotated[bool, typer.Option("--force", help="Also if it is intact or still being written.")] = False,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Move a damaged checkpoint aside, and mend the framework's pointer. Nothing is deleted; `restore` undoes it.

    Exit codes: 0 moved; 1 no checkpoint there; 2 PATH cannot be read; 3 refused (it is intact or still being written, or the
    site forbids it).
    """
    common.as_the_site_allows("set_aside")
    where = os.path.abspath(os.path.expanduser(path))
    try:
        report = verify(where)
    except OSError as e:
        common.fail(error_text(e, where))
    found = [c for c in report.checkpoints if c.path.rstrip("/") == where.rstrip("/")]
    if not found:
        common.fail(f"{where} is no checkpoint", common.NO)
    if found[0].status in {Status.INTACT, Status.IN_PROGRESS} and not force:
        how = str(found[0].status).replace("_", " ")
        if found[0].status is Status.IN_PROGRESS:
            how += f" ({waits(found[0], judge='')})"
        common.fail(f"{where} is {how}: it stays where it is (--force moves it all the same)", common.REFUSED)
    run = os.path.dirname(where.rstrip("/"))
    now = common.now()
    try:
        with common.opened(state, create=True) as store:
            Audit(common.state_directory(state)).note(now, "set_aside", None, path=where, why=found[0].reason)
            moves = aside.set_aside(store, found[0], None, found[0].reason, now)
            newest = verify(run).newest_intact
            pointer = aside.mend_pointer(store, run, newest, None, "quarantine", now) if newest else None
            mended = [pointer] if pointer else []
            mended += aside.mend_links(store, run, newest, None, "quarantine", now) if newest else []
    except aside.MoveError as e:
        common.fail(str(e), common.REFUSED)
    if json:
        links = [asdict(m) for m in mended if m.kind == "link"]
        shown = asdict(pointer) if pointer else None
        common.print_json({"moved": [asdict(m) for m in moves], "pointer": shown, "links": links})
        return
    for move in moves:
        typer.echo(f"{move.path} -> {move.target}")
    for each in mended:
        typer.echo(f"{each.path} names {newest.path if newest else each.target} now")
    typer.echo(f"undo it with: chainwatch restore {where}")


def restore(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Where the checkpoint was, or a mended pointer file.")],
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Undo what chainwatch moved aside or mended at PATH.

    Exit codes: 0 undone; 1 nothing to undo; 3 it would overwrite, or the site has paused all actions.
    """
    common.as_the_site_allows()
    try:
        with common.opened(state) as store:
            Audit(common.state_directory(state)).note(common.now(), "restore", None, path=str(path))
            moves = aside.restore(store, os.path.expanduser(path), common.now())
    except aside.NothingToUndo as e:
        common.fail(common.utf8(str(e)) or "", common.NO)
    except aside.MoveError as e:
        common.fail(str(e), common.REFUSED)
    if json:
        common.print_json({"undone": [asdict(m) for m in moves]})
        return
    for move in moves:
        typer.echo(f"{move.path} is as it was" if move.kind != "set_aside" else f"{move.target} -> {move.path}")


def nodes(json: common.Json = False, state: common.State = None) -> None:
    """Nodes that chains keep away from: why, and until when. One that ended jobs of two chains is suspect: every chain
    keeps away from it. Exit code 0, also where there are none."""
    with common.opened(state) as store:
        own = store.excluded(common.now())
    excluded = [*own, *shared(own, common.now())]
    if json:
        common.print_json([asdict(e) for e in excluded])
        return
    if not excluded:
        typer.echo("no node is excluded")
        return
    tables.show(
        ["node", "chain", "until", "why"],
        [[e.node, e.chain or "all", f"{e.until:%m-%d %H:%M}", tables.short(e.why)] for e in excluded],
    )


def backup(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the copy: a file, or a directory.")],
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Copy the database, consistently, while the daemon runs; the copy is checked.

    Exit codes: 0 it is written; 2 there is no state, or the copy cannot be written there.
    """
    with common.opened(state) as store:
        written = store.backup(path)
    if json:
        common.print_json({"backup": str(written.absolute()), "bytes": written.stat().st_size})
        return
    typer.echo(f"{written} is a copy of the database")
