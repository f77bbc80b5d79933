"""`chainwatch install-service`: write the systemd unit, and say what to type next."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.model.plain_file import text_of
from chainwatch.supervisor import units


def install_service(
    user: Annotated[bool, typer.Option("--user", help="For yourself, without root (systemctl --user).")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="A timer that runs one pass every two minutes, instead of a daemon.")
    ] = False,
    config: Annotated[
        str, typer.Option("--config", "-c", metavar="CONFIG", help="Configuration; relative to the home directory.")
    ] = units.CONFIG,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", metavar="DIR", help="Where to write; by default systemd's own directory."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a unit that was changed.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the units instead of writing them.")] = False,
    json: common.Json = False,
) -> None:
    """Write the systemd unit of this installation.

    Exit codes: 1 a changed unit is there already; 2 it cannot be written. Nothing is started: the commands that do are
    printed.
    """
    user = user or once  # a pass runs as who submits, and the timer has no user of its own
    try:
        here = units.found(config)
        rendered = {name: units.render(name, here) for name in units.names(user=user, once=once)}
    except (ValueError, FileNotFoundError) as error:
        common.fail(str(error))
    if show:
        if json:
            common.print_json({"units": rendered})
        else:
            typer.echo("\n".join(rendered.values()), nl=False)
        return
    where = directory or (units.USER.expanduser() if user else units.SYSTEM)
    for name, text in rendered.items():
        there = where / name
        if not force and _other(there, text):
            common.fail(
                f"{there} is there already and differs; compare it with --print, or replace it with --force", common.NO
            )
    try:
        where.mkdir(parents=True, exist_ok=True)
        for name, text in rendered.items():
            _write(where / name, text)
            if not json:
                typer.echo(f"wrote {where / name}")
    except OSError as error:
        hint = "" if user else " (as root, or with --user for yourself)"
        common.fail(f"cannot write to {where}: {error.strerror}{hint}")
    if named := os.environ.get("CHAINWATCH_STATE"):
        typer.echo(
            f"chainwatch: CHAINWATCH_STATE is {named} here, and the service does not see it: write `state: {named}` into "
            "its configuration",
            err=True,
        )
    steps = next_steps(user=user, once=once)
    if json:
        words = [line.partition("#")[0].strip() for line in steps]
        common.print_json({"written": [str(where / name) for name in rendered], "next": words})
        return
    typer.echo("Now type:")
    for line in steps:
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


def _other(path: Path, text: str) -> bool:
    """Something else than this unit is there."""
    try:
        return text_of(path) != text
    except FileNotFoundError:
        return False
    except OSError:
        return os.path.lexists(path)


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
