"""`chainwatch web`: open the daemon's status page in a browser."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

SOCKET = Path("~/.local/state/chainwatch/web.sock")


def web(
    socket: Annotated[
        Path, typer.Option("--socket", help="The daemon's Unix socket.", envvar="CHAINWATCH_SOCKET")
    ] = SOCKET,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0: a free one.")] = 0,
) -> None:
    """Forward the daemon's page to a loopback port, behind an address that works once. Ends with Ctrl-C.

    From your own machine: ssh -L PORT:127.0.0.1:PORT to the login node, then open the address there. Exit code 2: there
    is no daemon, or the port is taken.
    """
    from chainwatch.web.forward import forward
    from chainwatch.web.server import ServerError

    path = socket.expanduser()
    if not path.is_socket():
        typer.echo(f"there is no socket at {path}: does the daemon run here? `chainwatch status` says where", err=True)
        raise typer.Exit(2)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        served, address = forward(path, port)
    except ServerError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    with served:
        typer.echo(address)
        typer.echo(f"(once; from elsewhere: ssh -L {served.port}:127.0.0.1:{served.port} this-machine)", err=True)
        over.wait()
