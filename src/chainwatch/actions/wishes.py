"""What people want of a chain, written where the next tick reads it. One place for the commands and the page."""

from __future__ import annotations

from datetime import datetime, timedelta

from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord


class Unwanted(ValueError):
    """The wish makes no sense for this chain; a sentence for people."""


def pause(
    store: Store, chain: str, now: datetime, *, span: timedelta | None = None, why: str = "", holds: bool = False
) -> str:
    """Nothing is submitted until `resume`, or for a span. Returns what to say. `holds`: its pending job is held then."""
    until = None if span is None else now + span
    _want(store, chain, "pause", desired=Desired.PAUSE, desired_at=now, desired_until=until, desired_why=why)
    goes_on = "a running job goes on" if holds else "its job goes on"
    return f"paused{f' until {until:%Y-%m-%d %H:%M} UTC' if until else ''}; {goes_on}"


def resume(store: Store, chain: str, now: datetime) -> str:
    """A paused or stopped chain is looked after again."""
    _want(store, chain, "resume", desired=Desired.RUN, desired_at=now, desired_until=None, desired_why="")
    return "looked after again"


def stop(store: Store, chain: str, now: datetime, *, why: str = "") -> str:
    """Nothing is submitted any more."""
    _want(store, chain, "stop", desired=Desired.STOP, desired_at=now, desired_until=None, desired_why=why)
    return "stopped; nothing is submitted any more"


def done(store: Store, chain: str, now: datetime, *, why: str = "") -> str:
    """A person's word that it is finished."""
    why = why or "a person said so"
    _want(store, chain, "done", desired=Desired.DONE, desired_at=now, desired_until=None, desired_why=why)
    return "done by your word"


def mode(store: Store, chain: str, wanted: Mode) -> str:
    """Let chainwatch act for the chain, or only observe it."""
    _want(store, chain, "mode", mode=wanted)
    if wanted is Mode.ACT:
        return "chainwatch acts from the next pass on"
    return "chainwatch only observes from now on"


def retry(store: Store, chain: ChainRecord, now: datetime, *, cohort: bool = False) -> list[str]:
    """The next job although the chain rests or stopped; with `cohort` for all that wait and share its template or
    script. Returns their names. Raises `Unwanted` where the chain is proven done."""
    verdicts = (a.verdict for a in store.attempts(chain.name))
    verdict = next((v for v in verdicts if v is not None and v.proven_done), None)
    if verdict is not None:
        raise Unwanted(
            f"{chain.name} is proven done ({verdict.sentence}): to run on, change its `done:` rule and begin a new "
            f"chain, or `chainwatch forget {chain.name}` first"
        )
    names = [chain.name]
    if cohort:
        waiting = {ChainState.RESTING, ChainState.STOPPED, ChainState.WAITING}
        names += [
            c.name
            for c in store.chains()
            if c.name != chain.name and c.template == chain.template and c.state in waiting
        ]
    with store.transaction():
        for name in names:
            store.update_chain(
                name, desired=Desired.RUN, desired_at=now, desired_until=None, desired_why="", retried_at=now
            )
        store.bump("commands", {"command": "retry"})
    return names


def _want(store: Store, chain: str, command: str, **changes: object) -> None:
    with store.transaction():
        store.update_chain(chain, **changes)
        store.bump("commands", {"command": command})
