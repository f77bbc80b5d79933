"""Which message goes to which channel now: a pure function of the outbox, the settings and the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TypeAlias

from chainwatch.alerts.ledger import Ledger
from chainwatch.alerts.message import Kind, Tone
from chainwatch.alerts.windows import last_digest, muted
from chainwatch.config.alerts import Alerts, Channel
from chainwatch.store.records import Notice

CHUNK = 40
"""Most alerts in one digest message."""
PATIENCE = 5
"""Refusals of one alert after which later ones of its chain no longer wait for it."""
Routes: TypeAlias = Callable[[str], tuple[str, ...] | None]
"""The channels that a chain names; None: all."""


@dataclass(frozen=True, slots=True)
class Item:
    """One alert, and in which tone it is said."""

    notice: Notice
    tone: Tone
    times: int = 0


@dataclass(frozen=True, slots=True)
class Post:
    """One message on one channel."""

    channel: str
    items: tuple[Item, ...]
    summary: str


def kind_of(notice: Notice) -> str:
    return str(notice.body.get("kind") or "")


def needs_person(notice: Notice) -> bool:
    """It is told at once, and again until it is settled."""
    return notice.severity == "critical" or kind_of(notice) in {Kind.PERSON, Kind.PENDING, Kind.PAUSE_OVER}


def hears(name: str, channel: Channel, notice: Notice, routes: Routes) -> bool:
    """This channel is owed this alert."""
    order = ("info", "warning", "critical")
    severity = notice.severity if notice.severity in order else "warning"
    if order.index(severity) < order.index(channel.severity):
        return False
    if notice.chain is None:
        return True
    named = routes(notice.chain)
    return (named is None or name in named) and any(fnmatchcase(notice.chain, glob) for glob in channel.chains)


def at_once(channel: Channel, notice: Notice) -> bool:
    """It does not wait for the daily digest."""
    return needs_person(notice) or notice.severity != "info" or kind_of(notice) in channel.at_once


def owed(settings: Alerts, notice: Notice, routes: Routes) -> tuple[str, ...]:
    """Channels that must have told an alert before it counts as delivered: escalation channels are extra."""
    return tuple(
        name
        for name, channel in settings.channels.items()
        if not channel.after
        and hears(name, channel, notice, routes)
        and (settings.digest != "never" or at_once(channel, notice))
    )


def plan(
    now: datetime, settings: Alerts, waiting: Sequence[Notice], active: Sequence[Notice], ledger: Ledger, routes: Routes
) -> list[Post]:
    """What to say now, in order. `waiting`: not yet delivered; `active`: not recovered."""
    notices = {notice.id: notice for notice in (*waiting, *active)}
    open_ids = {notice.id for notice in active}
    posts: list[Post] = []
    for name, channel in settings.channels.items():
        endpoint = ledger.endpoint(name, now)
        if endpoint.next_try is not None and endpoint.next_try > now:
            continue
        fresh = [
            n
            for n in (notices[i] for i in sorted(notices))
            if hears(name, channel, n, routes) and not muted(settings, name, n, now)
        ]
        soon, daily = _untold(now, settings, name, channel, fresh, open_ids, ledger)
        soon += _reminders(now, settings, name, fresh, open_ids, ledger)
        soon += _recovered(now, settings, name, open_ids, ledger)
        soon.sort(key=lambda item: (item.notice.id, item.tone is Tone.RECOVERED))
        posts += _posts(name, soon, settings.burst, channel.per_hour - len(endpoint.sent))
        posts += _digests(name, daily, f"Daily digest: {_count(daily)}")
    return posts


def _untold(
    now: datetime,
    settings: Alerts,
    name: str,
    channel: Channel,
    notices: Sequence[Notice],
    open_ids: Collection[int],
    ledger: Ledger,
) -> tuple[list[Item], list[Item]]:
    soon: list[Item] = []
    daily: list[Item] = []
    held: set[str] = set()
    for notice in notices:
        delivery = ledger.delivery(notice, name)
        if delivery.told is not None or notice.chain in held:
            continue
        if channel.after and (notice.id not in open_ids or now - notice.created < channel.after):
            continue
        if not channel.after and notice.delivered is not None:
            continue  # from before this channel was configured
        if delivery.next_try is not None and delivery.next_try > now:
            if notice.chain is not None and delivery.tries < PATIENCE:
                held.add(notice.chain)
            continue
        late = notice.id not in open_ids and notice.severity != "info"
        (soon if at_once(channel, notice) else daily).append(Item(notice, Tone.LATE if late else Tone.NEW))
    if settings.digest == "never":
        return soon, []
    moment = last_digest(settings, now)
    return soon, daily if any(item.notice.created < moment for item in daily) else []


def _reminders(
    now: datetime,
    settings: Alerts,
    name: str,
    notices: Sequence[Notice],
    open_ids: Collection[int],
    ledger: Ledger,
) -> list[Item]:
    found = []
    for notice in notices if settings.reminders else ():
        delivery = ledger.delivery(notice, name)
        if notice.id not in open_ids or delivery.said_last is None or not needs_person(notice):
            continue
        pause = settings.reminders[min(delivery.reminders, len(settings.reminders) - 1)]
        if now - delivery.said_last >= pause and not (delivery.next_try and delivery.next_try > now):
            found.append(Item(notice, Tone.REMINDER, delivery.reminders + 1))
    return found


def _recovered(now: datetime, settings: Alerts, name: str, open_ids: Collection[int], ledger: Ledger) -> list[Item]:
    return [
        Item(entry.notice, Tone.RECOVERED)
        for number, entry in ledger.entries.items()
        if number not in open_ids
        and entry.notice.severity != "info"  # nobody needs to hear that good news is over
        and (delivery := entry.channels.get(name)) is not None
        and delivery.told is not None
        and not delivery.closed
        and not (delivery.next_try and delivery.next_try > now)
        and not muted(settings, name, entry.notice, now)
    ]


def _posts(name: str, items: list[Item], burst: int, allowance: int) -> list[Post]:
    """Each by itself where they are few; where they are many, or the hour's allowance is short, as one. Beyond the
    allowance only what is critical goes out, together."""
    if allowance <= 0:
        items = [item for item in items if item.notice.severity == "critical"]
    if len(items) <= burst and len(items) <= allowance:
        return [Post(name, (item,), _headline(item)) for item in items]
    return _digests(name, items, f"{len(items)} alerts at once: {_count(items)}")


def _digests(name: str, items: list[Item], summary: str) -> list[Post]:
    if len(items) == 1:
        return [Post(name, (items[0],), _headline(items[0]))]
    parts = [tuple(items[i : i + CHUNK]) for i in range(0, len(items), CHUNK)]
    total = len(parts)
    return [Post(name, p, summary if total == 1 else f"{summary} ({n}/{total})") for n, p in enumerate(parts, 1)]


def _headline(item: Item) -> str:
    where = f"{item.notice.chain}: " if item.notice.chain and item.notice.chain not in item.notice.title else ""
    return f"{where}{item.notice.title}"


def _count(items: Sequence[Item]) -> str:
    kinds: Mapping[str, int] = Counter(
        item.tone.value
        if item.tone in {Tone.REMINDER, Tone.RECOVERED}
        else kind_of(item.notice) or item.notice.severity
        for item in items
    )
    chains = {item.notice.chain for item in items if item.notice.chain}
    told = ", ".join(
        f"{number} {kind.replace('_', ' ')}" for kind, number in sorted(kinds.items(), key=lambda k: -k[1])
    )
    return f"{told}; {len(chains)} chain{'s' if len(chains) != 1 else ''}" if chains else told
