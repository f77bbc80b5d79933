"""`chainwatch web`: open the daemon's status page in a browser."""

from __future__ import annotations

import signal
from contextlib import suppress
from json import dumps
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.cli.words import whole


def web(
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            metavar="SOCKET",
            help="The daemon's Unix socket [web.sock in its state].",
            envvar="CHAINWATCH_SOCKET",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", parser=whole(0, 65535), help="Loopback port; 0: a free one.")
    ] = 0,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Forward the daemon's page to a loopback port, behind an address that works once. Ends with Ctrl-C.

    From your own machine: ssh -L PORT:127.0.0.1:PORT to the login node, then open the address there. Exit code 2: there
    is no daemon, or the port is taken.
    """
    from chainwatch.web.forward import forward
    from chainwatch.web.server import ServerError

    path = common.state_directory(state) / "web.sock" if socket is None else socket.expanduser()
    if not path.is_socket():
        common.fail(f"there is no socket at {path}: does the daemon run here? {_where_it_runs(state)}")
    if why := _deaf(path):
        common.fail(f"nobody answers at {path} ({why}): {_where_it_runs(state)}")
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # for the threads of `forward` too: they wait for `sigwait` below
    try:
        served, address = forward(path, port)
    except ServerError as error:
        common.fail(str(error))
    with served:
        if json:
            # one line: whoever reads it has no end of the output to wait for
            print(dumps({"address": address, "port": served.port, "socket": str(path)}), flush=True)
        else:
            typer.echo(address)
        typer.echo(f"(once; from elsewhere: ssh -L {served.port}:127.0.0.1:{served.port} this-machine)", err=True)
        signal.sigwait(ends)


def _deaf(path: Path) -> str:
    """Why nobody answers at a socket: on a shared file system it may be that of a daemon on another machine."""
    with Socket(AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
        except OSError as error:
            return str(error.strerror or error).lower()
    return ""


def _where_it_runs(state: Path | None) -> str:
    from chainwatch.store import StoreError

    with suppress(StoreError), common.opened(state) as store:
        if holder := store.at_work(common.now()):
            return f"the daemon is {holder}; type this on that machine"
    return "start the daemon again (chainwatch run, or its service)"
