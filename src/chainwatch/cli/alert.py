"""`chainwatch alert`: try the channels, print the webhook's schema. Imports are late: most commands send nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainwatch.cli import common
from chainwatch.cli.group import Plain

if TYPE_CHECKING:
    from chainwatch.config.alerts import Alerts

app = typer.Typer(help="Alert channels: try them, and the schema of the JSON webhook.", no_args_is_help=True)

DEFAULT = Path("~/.config/chainwatch/chainwatch.yaml")


def sample(channel: str, settings: Alerts, allowed_hosts: tuple[str, ...] | None = None) -> str:
    """Send a test alert on one channel; the sentence that says what became of it. Empty: it was taken."""
    from chainwatch.alerts.build import build
    from chainwatch.alerts.channel import Told
    from chainwatch.alerts.message import Kind, body, from_notice
    from chainwatch.model.clock import SystemClock
    from chainwatch.store.records import Notice

    now = SystemClock().now()
    said = body(
        Kind.TEST,
        what="`chainwatch alert test` was typed.",
        why="Somebody wants to know whether alerts arrive here.",
        line="RuntimeError: this is what a quoted log line looks like <b>@channel</b>",
        source="/logs/4711.out:812",
        did="Nothing: no chain is concerned.",
        wants="Nothing, if you can read this.",
        command="chainwatch status",
    )
    message = from_notice(Notice(0, None, "test", "info", "This is a test alert", said, now), runbooks=settings.runbook)
    answer = build(channel, settings.channels[channel], allowed_hosts).tell([message], message.headline, now)
    return "" if isinstance(answer, Told) else answer.why


@app.command("test", cls=Plain)
def try_channels(
    channel: Annotated[
        str | None, typer.Argument(metavar="CHANNEL", help="Name of the channel; by default all.")
    ] = None,
    config: Annotated[
        Path,
        common.config_option("Configuration: a file, or a directory of files."),
    ] = DEFAULT,
    as_json: common.Json = False,
) -> None:
    """Send a test alert. Exit codes: 0 every channel took it; 1 one did not; 2 there is no such channel."""
    from chainwatch.config import load
    from chainwatch.config.site import load_site

    if config == DEFAULT and not config.expanduser().exists():
        here = " -c chainwatch.yaml" if Path("chainwatch.yaml").exists() else " -c FILE"
        common.fail(f"there is no {config}: name the configuration, `chainwatch alert test{here}`")
    settings = load(config).config.alerts
    names = list(settings.channels) if channel is None else [channel]
    if channel is not None and channel not in settings.channels:
        known = ", ".join(settings.channels) or "none"
        common.fail(f"no alert channel is named {channel!r} (configured: {known})")
    if not names:
        common.fail("no alert channel is configured: add one under alerts: channels: and try again")
    hosts = load_site().allowed_hosts
    results = {name: sample(name, settings, hosts) for name in names}
    if as_json:
        common.print_json({name: {"taken": not why, "why": why} for name, why in results.items()})
    else:
        for name, why in results.items():
            typer.echo(f"{name}: {why or 'taken; look whether you can read it'}")
    if any(results.values()):
        raise typer.Exit(1)


@app.command(cls=Plain)
def schema() -> None:
    """Print the JSON Schema of what the `json` channel sends."""
    from chainwatch.alerts.json_webhook import schema as webhook_schema

    common.print_json(webhook_schema())
