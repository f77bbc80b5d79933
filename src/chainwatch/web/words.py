"""Moments, spans, numbers and badges, as every page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from chainwatch.model.chain import ChainState
from chainwatch.model.durations import span
from chainwatch.store.records import ChainRecord
from chainwatch.store.standing import standing
from chainwatch.web.html import Child, Markup, tag


def when(moment: datetime) -> Markup:
    """A moment, with the machine's way to write it beside it."""
    return tag("time", f"{moment:%d %b %H:%M} UTC", datetime=moment.isoformat())


def badge(state: ChainState) -> Markup:
    """The state in its colour."""
    return tag("span", state.value, class_=f"badge {state.value}")


def steps(chain: ChainRecord) -> str:
    """`4,000 of 10,000 (40%)`."""
    if chain.step is None:
        return ""
    return f"{chain.step:,}" + (f" of {chain.target:,} ({chain.step / chain.target:.0%})" if chain.target else "")


def left(chain: ChainRecord, now: datetime) -> str:
    """How long the training still takes."""
    stands = standing(chain, now)
    seconds = stands.eta_seconds if stands.eta_seconds is not None else stands.eta_overall_seconds
    return span(seconds)


def bar(chain: ChainRecord) -> Markup | None:
    """Saved and reached steps against the final one; None where one of them is not known."""
    if chain.step is None or not chain.target:
        return None
    reached = min(100.0, 100 * chain.step / chain.target)
    saved = reached if chain.state is ChainState.DONE else min(reached, 100 * (chain.saved_step or 0) / chain.target)
    shapes: list[Child] = [tag("rect", class_="ground", width=100, height=6, rx=1)]
    shapes.append(tag("rect", class_="ahead", width=round(reached, 2), height=6, rx=1))
    shapes.append(tag("rect", class_="safe", width=round(saved, 2), height=6, rx=1))
    said = f"{reached:.0f}% reached, {saved:.0f}% saved"
    frame = {"class_": "progress", "viewBox": "0 0 100 6", "preserveAspectRatio": "none", "role": "img"}
    return tag("svg", tag("title", said), *shapes, **frame)


def path_of(chain: str, action: str = "") -> str:
    """The address of a chain's page, or of one of its buttons."""
    return f"/chain/{quote(chain, safe='')}" + (f"/{action}" if action else "")


def table(heads: Sequence[str], rows: Sequence[Sequence[Child]], label: str = "") -> Markup:
    """A table that can be scrolled by keyboard; on a phone each row becomes a card."""
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    body = tag("tbody", *(tag("tr", *map(_cell, heads, row)) for row in rows))
    return tag("div", tag("table", head, body), class_="wide", tabindex=0, role="region", aria_label=label or heads[0])


def _cell(head: str, cell: Child) -> Markup:
    """One cell; on a phone its label stands before it, and an empty one is left out."""
    return tag("td", cell, data_label=head, class_="none" if cell in ("", None) else None)
