"""`chainwatch reload`: let the daemon read its configuration again."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.cli.attended import another_configuration, daemon_line
from chainwatch.cli.common import NO, UNUSABLE, Json, State, config_option, fail, now, opened, print_json
from chainwatch.supervisor.reloading import answered

PATIENCE = 20.0
"""Seconds that the daemon may take: it reads between two passes, and a pass waits for Slurm."""


def reload(
    state: State = None,
    config: Annotated[
        Path | None,
        config_option("Check this configuration first; a wrong one is not sent."),
    ] = None,
    json: Json = False,
) -> None:
    """Let the daemon of this state read its configuration again, and say what came of it.

    Exit codes: 1 no daemon is at work that could be asked from here (another machine, another user); 2 the configuration is
    refused, and the old one stays, or CONFIG is another one than the daemon reads.
    """
    loaded = None
    if config is not None:
        from chainwatch.config import load
        from chainwatch.supervisor.rules import with_scripts

        loaded = load(config, with_scripts()).config
    with opened(state, loaded) as store:
        holder, before = store.at_work(now()), answered(store).get("at")
        line = daemon_line(store, now())
        theirs = config and another_configuration(store, config)
    if not holder:
        fail(line, NO)
    if theirs:
        fail(f"this state's configuration is {theirs}: its daemon does not read {config}, and was not asked to reload")
    host, _, pid = holder.rpartition(":")
    if host != socket.gethostname():
        fail(f"the daemon works on {host}: type this there, or `systemctl reload` on that machine", NO)
    try:
        os.kill(int(pid), signal.SIGHUP)
    except (ProcessLookupError, ValueError):
        fail(f"the daemon {holder} is gone", NO)
    except PermissionError:
        fail(f"the daemon {holder} runs as another user", NO)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(0.2)
        with opened(state, loaded) as store:
            answer = answered(store)
        if answer.get("at") != before:
            _say(holder, not answer["problem"], answer["problem"] or answer["said"], json)
            return
    _say(holder, None, f"asked {holder}, which waits for Slurm now: its log says what comes of it", json)


def _say(daemon: str, granted: bool | None, said: str, json: bool) -> None:
    """`granted` None: nobody knows yet."""
    if json:
        print_json({"daemon": daemon, "granted": granted, "said": said})
    elif granted is False:
        fail(said)
    else:
        typer.echo(said)
    if granted is False:
        raise typer.Exit(UNUSABLE)
