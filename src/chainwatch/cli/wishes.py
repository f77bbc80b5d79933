"""What people want of a chain: pause, resume, stop, retry, done, mode, forget. Desired state that the next tick reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from chainwatch.actions import wishes
from chainwatch.cli import common
from chainwatch.cli.words import one_of
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.durations import parse_duration
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord, Origin

_NEXT = "the next pass of the daemon submits the next job"
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, shown in `status`.", callback=common.utf8)]


def _wish(chain: str, state: common.State, json: bool, wish: Callable[[Store], str]) -> None:
    with common.opened(state) as store:
        common.known_chain(store, chain)
        said = wish(store)
        record = common.known_chain(store, chain)
    if json:
        common.print_json({"chain": record.name, "desired": str(record.desired), "mode": str(record.mode)})
    else:
        typer.echo(f"{chain}: {said}")
    _warn_released(record)


def _warn_released(record: ChainRecord) -> None:
    if record.released:
        typer.echo(
            f"chainwatch: {record.name} is no longer in the daemon's configuration: put it back, and this is done then",
            err=True,
        )


def pause(
    chain: common.ChainName,
    span: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="How long (`4h`); then it goes on, and you are told.")
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Hold its pending job too; `resume` releases it.")] = False,
    why: Why = "",
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit nothing for this chain until `resume`. A job that lives goes on.

    Exit codes: 1 no such chain; with --hold also 3 the site forbids it, 4 Slurm gave no answer.
    """
    try:
        length = None if span is None else parse_duration(span)
    except ValueError as e:
        common.fail(str(e))
    if span is not None and not length:
        common.fail("--for 0 would be no pause at all: name a span, or leave --for out until `resume`")
    _wish(chain, state, json, lambda store: wishes.pause(store, chain, common.now(), span=length, why=why, holds=hold))
    if hold:
        from chainwatch.cli.live_jobs import hold_pending

        hold_pending(chain, state)


def resume(chain: common.ChainName, json: common.Json = False, state: common.State = None) -> None:
    """Look after a paused or stopped chain again. Exit code 1: there is no such chain."""
    _wish(chain, state, json, lambda store: f"{wishes.resume(store, chain, common.now())}, at the daemon's next pass")


def stop(
    chain: common.ChainName,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel its job too.")] = False,
    why: Why = "",
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """End the chain: nothing is submitted any more. `retry` begins again.

    Exit codes: 1 no such chain; with --cancel also 3 refused, 4 Slurm gave no answer.
    """
    goes_on = "" if cancel else "; a job that it has goes on (`--cancel` ends it)"
    _wish(chain, state, json, lambda store: wishes.stop(store, chain, common.now(), why=why) + goes_on)
    if cancel:
        from chainwatch.cli.live_jobs import cancel_live

        cancel_live(chain, state)


def retry(
    chain: common.ChainName,
    cohort: Annotated[bool, typer.Option("--cohort", help="All chains of the same template or script too.")] = False,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit the next job although the chain rests or stopped. Budgets count from here.

    Exit codes: 1 no such chain; 3 refused, since there is nothing to try again.
    """
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        try:
            names = wishes.retry(store, record, common.now(), cohort=cohort)
        except wishes.Unwanted as e:
            common.fail(str(e), common.REFUSED)
    _warn_released(record)
    if json:
        common.print_json({"retried": names})
    else:
        lives = record.state in {ChainState.RUNNING, ChainState.PENDING} and not record.released
        for name in names:
            said = "its job goes on, and budgets count from here" if lives and name == chain else _NEXT
            typer.echo(f"{name}: {said}")


def done(chain: common.ChainName, why: Why = "", json: common.Json = False, state: common.State = None) -> None:
    """Your word that the chain is finished: nothing is submitted any more. Exit code 1: there is no such chain."""
    _wish(chain, state, json, lambda store: wishes.done(store, chain, common.now(), why=why))


def mode(
    chain: common.ChainName,
    mode: Annotated[
        Mode,
        typer.Argument(
            metavar="observe|act",
            help="What chainwatch may do.",
            parser=one_of(Mode),
            autocompletion=lambda: list(Mode),
        ),
    ],
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Let chainwatch act for this chain, or only observe it. Exit codes: 1 no such chain; 3 the site forbids it."""
    if mode is Mode.ACT:
        common.as_the_site_allows("act")
    _wish(chain, state, json, lambda store: wishes.mode(store, chain, mode))


def forget(chain: common.ChainName, json: common.Json = False, state: common.State = None) -> None:
    """Take a chain out of the list. Its history is kept; its jobs and files are not touched.

    Exit code 1: there is no such chain.
    """
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        archived = store.forget_chain(chain)
    if json:
        common.print_json({"forgotten": chain, "archived": archived})
    else:
        typer.echo(f"{chain}: forgotten; its jobs and files are untouched, its history is kept as {archived}")
        if record.origin is Origin.CONFIG:
            typer.echo("take it out of the configuration too: otherwise the daemon registers it anew")
