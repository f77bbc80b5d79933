"""The buttons of the page: forms that need no script, and the token without which a press does nothing.

The token is made from a secret of this process and the chain's name, so that only who was shown the page has it: a form
on somebody else's page, which a browser would send with our cookie, has none (and the cookie is SameSite=Strict, and a
browser that says where a form came from must say: from here).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from chainwatch.actions import wishes
from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.model.durations import parse_duration
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.web.html import Child, Markup, tag
from chainwatch.web.words import path_of

SPANS = (("", "until I resume it"), ("1h", "for an hour"), ("8h", "for 8 hours"), ("1d", "for a day"))
WHY = "on the status page"


class Action(StrEnum):
    """What can be asked for."""

    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    STOP = "stop"
    OBSERVE = "observe"
    ACT = "act"


class Refused(Exception):
    """The wish is not granted; a sentence for people."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Buttons:
    """Makes the tokens of one process, and checks them."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, chain: str) -> str:
        """The token of a chain's forms."""
        return hmac.new(self._secret, chain.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def pressed_here(self, chain: str, token: str, headers: Mapping[str, str]) -> bool:
        """The press comes from a page that this process showed."""
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return False
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token(chain).encode())


def grant(store: Store, chain: ChainRecord, action: str, given: Mapping[str, str], now: datetime) -> str:
    """Write the wish down; what to say. Raises `Refused`."""
    name = chain.name
    if action not in set(Action):
        raise Refused(404, "there is no such action")
    if action == Action.RESUME:
        return wishes.resume(store, name, now)
    if action == Action.STOP:
        return wishes.stop(store, name, now, why=WHY)
    if action == Action.RETRY:
        try:
            wishes.retry(store, chain, now)
        except wishes.Unwanted as error:
            raise Refused(409, str(error)) from None
        return "the next pass submits the next job"
    if action == Action.PAUSE:
        return wishes.pause(store, name, now, span=_span(given.get("for", "")), why=WHY)
    return wishes.mode(store, name, Mode(action))


def forms(chain: ChainRecord, token: str) -> Markup:
    """The buttons that make sense for the chain as it is."""
    quiet = chain.state in {ChainState.RESTING, ChainState.STOPPED, ChainState.WAITING}
    out: list[Child] = []
    if chain.desired in {Desired.PAUSE, Desired.STOP}:
        out.append(_form(chain, Action.RESUME, token, _button("Resume", "strong")))
    if chain.desired is Desired.RUN and quiet:
        out.append(_form(chain, Action.RETRY, token, _button("Retry now", "strong")))
    if chain.desired is Desired.RUN and chain.state is not ChainState.DONE:
        choices = [tag("option", words, value=span) for span, words in SPANS]
        choice = tag("select", *choices, name="for", aria_label="How long to pause")
        out.append(_form(chain, Action.PAUSE, token, _button("Pause"), choice))
    other = Action.ACT if chain.mode is Mode.OBSERVE else Action.OBSERVE
    out.append(_form(chain, other, token, _button("Let it act" if other is Action.ACT else "Only observe")))
    if chain.desired is not Desired.STOP and chain.state is not ChainState.DONE:
        sure = "Nothing is submitted any more, until you resume it. A job that lives goes on."
        form = _form(chain, Action.STOP, token, _button("Stop the chain", "danger"))
        out.append(tag("details", tag("summary", "Stop…"), tag("p", sure), form))
    return tag("section", tag("h3", "Actions"), tag("div", *out, class_="buttons"), class_="actions")


def _form(chain: ChainRecord, action: Action, token: str, *content: Child) -> Markup:
    hidden = tag("input", type="hidden", name="token", value=token)
    return tag("form", hidden, *content, method="post", action=path_of(chain.name, action.value))


def _button(words: str, kind: str | None = None) -> Markup:
    return tag("button", words, type="submit", class_=kind)


def _span(text: str) -> timedelta | None:
    if not text:
        return None
    try:
        span = parse_duration(text)
    except ValueError as error:
        raise Refused(400, f"for: {error}") from None
    if not timedelta(0) < span <= timedelta(days=366):
        raise Refused(400, "for: a span of at most a year is expected, as 4h")
    return span
