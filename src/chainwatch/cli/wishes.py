"""What people want of a chain: pause, resume, stop, retry, done, mode, forget. Desired state that the next tick reads."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chainwatch.cli import common
from chainwatch.config.values import parse_duration
from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.model.verdict import Outcome
from chainwatch.store.records import ChainRecord, Origin

Why = Annotated[str, typer.Option("--why", help="The reason, shown in `status`.")]


def _set(chain: str, state: common.State, json: bool, said: str, **changes: Any) -> ChainRecord:
    with common.opened(state) as store:
        common.known_chain(store, chain)
        record = store.update_chain(chain, **changes)
        store.bump("commands", {"command": said.split(" ", 1)[0]})
    if json:
        common.print_json({"chain": record.name, "desired": str(record.desired), "mode": str(record.mode)})
    else:
        typer.echo(f"{chain}: {said}")
    _warn_released(record)
    return record


def _warn_released(record: ChainRecord) -> None:
    if record.released:
        typer.echo(
            f"chainwatch: {record.name} is no longer in the daemon's configuration: put it back, and this is done then",
            err=True,
        )


def pause(
    chain: common.ChainName,
    span: Annotated[
        str | None, typer.Option("--for", help="How long (`4h`); then it goes on, and you are told.")
    ] = None,
    why: Why = "",
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit nothing for this chain until `resume`. A job that lives goes on."""
    until = None
    if span is not None:
        try:
            until = common.now() + parse_duration(span)
        except ValueError as e:
            common.fail(str(e))
    at = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
    _set(
        chain, state, json, f"paused{at}; its job goes on",
        desired=Desired.PAUSE, desired_at=common.now(), desired_until=until, desired_why=why,
    )  # fmt: skip


def resume(chain: common.ChainName, json: common.Json = False, state: common.State = None) -> None:
    """Look after a paused or stopped chain again."""
    _set(
        chain, state, json, "looked after again",
        desired=Desired.RUN, desired_at=common.now(), desired_until=None, desired_why="",
    )  # fmt: skip


def stop(
    chain: common.ChainName,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel its job too.")] = False,
    why: Why = "",
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """End the chain: nothing is submitted any more. `retry` begins again."""
    _set(
        chain, state, json, "stopped; nothing is submitted any more",
        desired=Desired.STOP, desired_at=common.now(), desired_until=None, desired_why=why,
    )  # fmt: skip
    if cancel:
        from chainwatch.cli.jobs import cancel_live

        cancel_live(chain, state)


def retry(
    chain: common.ChainName,
    cohort: Annotated[bool, typer.Option("--cohort", help="All chains of the same template or script too.")] = False,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit the next job although the chain rests or stopped. Budgets count from here."""
    moment = common.now()
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        names = [chain]
        verdict = next((a.verdict for a in store.attempts(chain, last=1)), None)
        if verdict is not None and verdict.outcome is Outcome.DONE and not verdict.assumed:
            common.fail(
                f"{chain} is proven done ({verdict.sentence}): to run on, change its `done:` rule and begin a new chain, "
                f"or `chainwatch forget {chain}` first",
                common.REFUSED,
            )
        if cohort:
            same = _template(record)
            waiting = {ChainState.RESTING, ChainState.STOPPED, ChainState.WAITING}
            names += [c.name for c in store.chains() if c.name != chain and _template(c) == same and c.state in waiting]
        with store.transaction():
            for name in names:
                store.update_chain(
                    name, desired=Desired.RUN, desired_at=moment, desired_until=None, desired_why="", retried_at=moment
                )
    _warn_released(record)
    if json:
        common.print_json({"retried": names})
    else:
        typer.echo(f"{', '.join(names)}: the next pass of the daemon submits the next job")


def done(chain: common.ChainName, why: Why = "", json: common.Json = False, state: common.State = None) -> None:
    """Your word that the chain is finished: nothing is submitted any more."""
    _set(
        chain, state, json, "done by your word",
        desired=Desired.DONE, desired_at=common.now(), desired_until=None, desired_why=why or "a person said so",
    )  # fmt: skip


def mode(
    chain: common.ChainName,
    mode: Annotated[Mode, typer.Argument(metavar="observe|act", help="What chainwatch may do.")],
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Let chainwatch act for this chain, or only observe it."""
    said = "chainwatch acts from the next pass on" if mode is Mode.ACT else "chainwatch only observes from now on"
    _set(chain, state, json, said, mode=mode)


def forget(chain: common.ChainName, json: common.Json = False, state: common.State = None) -> None:
    """Take a chain out of the list. Its history is kept; its jobs and files are not touched."""
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        archived = store.forget_chain(chain)
    if json:
        common.print_json({"forgotten": chain, "archived": archived})
    else:
        typer.echo(f"{chain}: forgotten; its jobs and files are untouched, its history is kept as {archived}")
        if record.origin is Origin.CONFIG:
            typer.echo("take it out of the configuration too: otherwise the daemon registers it anew")


def _template(record: ChainRecord) -> str:
    return str(record.settings.get("template") or record.settings.get("batch") or record.name)
