"""Who was told what: the part of the outbox that is about channels. One JSON value in the store, a few kilobytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from chainwatch.store.records import Notice

T = TypeVar("T")


@dataclass(slots=True)
class Delivery:
    """One alert on one channel."""

    told: datetime | None = None
    said_last: datetime | None = None
    """When it or its last reminder was told."""
    reminders: int = 0
    tries: int = 0
    """Refusals of this very message."""
    next_try: datetime | None = None
    closed: bool = False
    """Nothing more will be said about it here."""


@dataclass(slots=True)
class Endpoint:
    """The health of one channel."""

    tries: int = 0
    next_try: datetime | None = None
    error: str = ""
    sent: list[datetime] = field(default_factory=list)
    """When messages went out in the last hour."""


@dataclass(slots=True)
class Entry:
    """One alert with what is needed to say later that it is over."""

    notice: Notice
    channels: dict[str, Delivery] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """Everything that delivery must remember between two runs."""

    entries: dict[int, Entry] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)

    def delivery(self, notice: Notice, channel: str) -> Delivery:
        """The state of an alert on a channel; a new one where there is none."""
        entry = self.entries.get(notice.id)
        return entry.channels.get(channel, Delivery()) if entry else Delivery()

    def put(self, notice: Notice, channel: str, delivery: Delivery) -> None:
        entry = self.entries.setdefault(notice.id, Entry(notice))
        entry.channels[channel] = delivery

    def endpoint(self, channel: str, now: datetime) -> Endpoint:
        """The health of a channel, with what is older than an hour forgotten."""
        endpoint = self.endpoints.setdefault(channel, Endpoint())
        endpoint.sent = [at for at in endpoint.sent if at > now - timedelta(hours=1)]
        return endpoint

    def prune(self, open_ids: Collection[int], channels: Collection[str]) -> None:
        """Forget what is over and said, and channels that are no longer configured."""
        for gone in set(self.endpoints) - set(channels):
            del self.endpoints[gone]
        for number, entry in list(self.entries.items()):
            left = [entry.channels[name] for name in channels if name in entry.channels]
            if number not in open_ids and all(d.closed or d.told is None for d in left):
                del self.entries[number]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "entries": [
                {"notice": _plain(asdict(e.notice)), "channels": {n: _plain(asdict(d)) for n, d in e.channels.items()}}
                for e in self.entries.values()
            ],
            "endpoints": {name: _plain(asdict(e)) for name, e in self.endpoints.items()},
        }

    @classmethod
    def from_json(cls, value: Any) -> Ledger:
        """What `to_json` gave. What cannot be read counts as never told: once too often is better than never."""
        ledger = cls()
        if not isinstance(value, dict):
            return ledger
        for item in value.get("entries", ()):
            try:
                notice = _built(Notice, item["notice"])
                entry = Entry(notice, {n: _built(Delivery, d) for n, d in item["channels"].items()})
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
            ledger.entries[notice.id] = entry
        for name, item in value.get("endpoints", {}).items():
            try:
                ledger.endpoints[name] = _built(Endpoint, item)
            except (AttributeError, TypeError, ValueError):
                continue
        return ledger


_TIMES = {"told", "said_last", "next_try", "created", "delivered", "recovered"}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _out(value) for key, value in values.items()}


def _out(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return [_out(one) for one in value] if isinstance(value, list) else value


def _built(kind: type[T], values: Mapping[str, Any]) -> T:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            given[key] = datetime.fromisoformat(value) if key in _TIMES and isinstance(value, str) else value
    if "sent" in given:
        given["sent"] = [datetime.fromisoformat(at) for at in given["sent"]]
    return kind(**given)
