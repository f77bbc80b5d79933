"""`chainwatch install-service`: write the systemd unit, and say what to type next."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from chainwatch.supervisor import units


def install_service(
    user: Annotated[bool, typer.Option("--user", help="For yourself, without root (systemctl --user).")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="A timer that runs one pass every two minutes, instead of a daemon.")
    ] = False,
    config: Annotated[
        str, typer.Option("--config", "-c", help="Configuration; relative to the home directory.")
    ] = units.CONFIG,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Where to write; by default systemd's own directory.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a unit that was changed.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the units instead of writing them.")] = False,
) -> None:
    """Write the systemd unit of this installation.

    Exit code 1: a changed unit is there already; 2: it cannot be written. Nothing is started: the
    commands that do are printed.
    """
    user = user or once  # a pass runs as who submits, and the timer has no user of its own
    try:
        here = units.found(config)
        rendered = {name: units.render(name, here) for name in units.names(user=user, once=once)}
    except (ValueError, FileNotFoundError) as error:
        _fail(str(error), 2)
    if show:
        typer.echo("\n".join(rendered.values()), nl=False)
        return
    where = directory or (units.USER.expanduser() if user else units.SYSTEM)
    for name, text in rendered.items():
        there = where / name
        if there.exists() and there.read_text() != text and not force:
            _fail(f"{there} is there already and differs; compare it with --print, or replace it with --force", 1)
    try:
        where.mkdir(parents=True, exist_ok=True)
        for name, text in rendered.items():
            _write(where / name, text)
            typer.echo(f"wrote {where / name}")
    except OSError as error:
        hint = "" if user else " (as root, or with --user for yourself)"
        _fail(f"cannot write to {where}: {error.strerror}{hint}", 2)
    if named := os.environ.get("CHAINWATCH_STATE"):
        typer.echo(
            f"chainwatch: CHAINWATCH_STATE is {named} here, and the service does not see it: write `state: {named}` into "
            "its configuration",
            err=True,
        )
    typer.echo("Now type:")
    for line in next_steps(user=user, once=once):
        typer.echo(f"    {line}")


def next_steps(*, user: bool, once: bool) -> tuple[str, ...]:
    """The commands that start it."""
    if user:
        return (
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {'chainwatch-once.timer' if once else 'chainwatch.service'}",
            "loginctl enable-linger    # so that it goes on after you log out",
        )
    return (
        "systemctl daemon-reload",
        "systemctl enable --now chainwatch@alice.service    # for each user whose runs it keeps alive",
    )


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _fail(sentence: str, code: int) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
