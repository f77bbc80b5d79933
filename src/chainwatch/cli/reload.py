"""`chainwatch reload`: let the daemon read its configuration again."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli.common import NO, State, fail, now, opened


def reload(
    state: State = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Check this configuration first; a wrong one is not sent.")
    ] = None,
) -> None:
    """Let the daemon of this state read its configuration again; its log says what came of it.

    Exit code 1: no daemon is at work, or it works on another machine.
    """
    if config is not None:
        from chainwatch.config import load
        from chainwatch.supervisor.rules import RULES

        load(config, RULES)
    with opened(state) as store:
        lease = store.lease()
    if lease is None or not lease.holder or lease.until <= now():
        fail("no daemon is at work on this state: `chainwatch run CONFIG` starts one", NO)
    host, _, pid = lease.holder.rpartition(":")
    if host != socket.gethostname():
        fail(f"the daemon works on {host}: type this there, or `systemctl reload` on that machine", NO)
    try:
        os.kill(int(pid), signal.SIGHUP)
    except (ProcessLookupError, ValueError):
        fail(f"the daemon {lease.holder} is gone; its lease ends at {lease.until:%H:%M:%S} UTC", NO)
    except PermissionError:
        fail(f"the daemon {lease.holder} runs as another user", NO)
    typer.echo(f"asked {lease.holder} to read its configuration again")
