"""Delivery of what is owed to people: at least once, in order per chain, and never blocking the loop.

The loop calls `run_due` in a worker thread. A channel that is down costs one try per back-off, however much waits for
it; what was told is written down after each message, so a crash repeats at most one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from chainwatch.alerts.backoff import pause_after
from chainwatch.alerts.channel import Answer, Channel, Told, TryLater, Unwelcome
from chainwatch.alerts.ledger import Delivery, Ledger
from chainwatch.alerts.message import Message, Tone, from_notice
from chainwatch.alerts.plan import Item, Post, Routes, owed, plan
from chainwatch.config.alerts import Alerts
from chainwatch.model.clock import Clock
from chainwatch.store.counters import Counted, count
from chainwatch.store.records import ChainRecord, Notice

LEDGER = "alerts.ledger"
PACE = 1.0
"""Seconds between two messages on one channel: Slack takes one a second."""


class Outbox(Protocol):
    """What delivery needs of the store. Methods of the same names there."""

    def undelivered(self) -> list[Notice]: ...
    def active_notices(self, chain: str | None = None) -> list[Notice]: ...
    def delivered(self, notice_id: int, now: datetime) -> None: ...
    def failed(self, notice_id: int, now: datetime, error: str, next_try: datetime) -> None: ...
    def bump(self, name: str, labels: Mapping[str, str], by: float = 1) -> None: ...
    def remember(self, key: str, value: Any) -> None: ...
    def recall(self, key: str) -> Any: ...


class Registered(Protocol):
    """What routes need of the store."""

    def chain(self, name: str) -> ChainRecord | None: ...


def routes_of(store: Registered) -> Routes:
    """The channels that each chain names under `alerts:`, as registered; None: all."""

    def route(name: str) -> tuple[str, ...] | None:
        record = store.chain(name)
        named = None if record is None else record.settings.get("alerts")
        return None if named is None else tuple(map(str, named))

    return route


@dataclass(frozen=True, slots=True)
class Report:
    """What one run did."""

    told: int = 0
    failed: int = 0
    left: int = 0
    """Messages that were due and for which the time did not suffice."""
    problems: tuple[str, ...] = ()
    """One sentence per channel that failed."""


class Deliverer:
    """Tells people what the outbox holds. One run at a time; a second one returns at once."""

    def __init__(
        self,
        store: Outbox,
        channels: Mapping[str, Channel],
        settings: Alerts,
        clock: Clock,
        routes: Routes = lambda chain: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._channels, self._settings = store, channels, settings
        self._clock, self._routes, self._pause = clock, routes, pause
        self._running = threading.Lock()
        self._log = structlog.get_logger("chainwatch.alerts")

    def run_due(self, deadline: timedelta = timedelta(minutes=1)) -> Report:
        """Say what is due now; begin no message after `deadline`. Raises only what the store raises."""
        if not self._running.acquire(blocking=False):
            return Report()
        try:
            return self._run(self._clock.monotonic() + deadline.total_seconds())
        finally:
            self._running.release()

    def _run(self, end: float) -> Report:
        now = self._clock.now()
        ledger = Ledger.from_json(self._store.recall(LEDGER))
        waiting = self._store.undelivered()
        # The history of a forgotten chain is kept under NAME~7, and nobody waits for an answer to it.
        active = [notice for notice in self._store.active_notices() if "~" not in (notice.chain or "")]
        before = ledger.to_json()
        told = failed = left = 0
        problems: dict[str, str] = {}
        spoke: set[str] = set()
        for post in plan(now, self._settings, waiting, active, ledger, self._routes):
            if post.channel in problems:
                continue
            if self._clock.monotonic() >= end:
                left += 1
                continue
            if post.channel in spoke:
                self._pause(PACE)
            spoke.add(post.channel)
            answers = self._say(post)
            for items, answer in answers:
                told, failed = told + isinstance(answer, Told), failed + (not isinstance(answer, Told))
                problem = self._note(post.channel, items, answer, ledger)
                if problem:
                    problems[post.channel] = problem
            self._store.remember(LEDGER, ledger.to_json())
        self._close(waiting, ledger, now)
        open_ids = {notice.id for notice in (*active, *waiting)}
        self._expire(ledger, {notice.id for notice in active})
        ledger.prune(open_ids, self._settings.channels)
        if ledger.to_json() != before:
            self._store.remember(LEDGER, ledger.to_json())
        return Report(told, failed, left, tuple(problems.values()))

    def _say(self, post: Post) -> list[tuple[tuple[Item, ...], Answer]]:
        """Tell; where the other side refuses, find out which message it is, and say that one in short."""
        answer = self._tell(post.channel, post.items, post.summary)
        if not isinstance(answer, Unwelcome):
            return [(post.items, answer)]
        if len(post.items) == 1:
            return [(post.items, self._tell(post.channel, post.items, post.summary, short=True))]
        out: list[tuple[tuple[Item, ...], Answer]] = []
        for item in post.items:
            out += self._say(Post(post.channel, (item,), item.notice.title))
            if isinstance(out[-1][1], TryLater):
                break
            self._pause(PACE)
        return out

    def _tell(self, channel: str, items: Sequence[Item], summary: str, short: bool = False) -> Answer:
        messages = [from_notice(i.notice, tone=i.tone, times=i.times, runbooks=self._settings.runbook) for i in items]
        if short:
            messages = [_in_short(message) for message in messages]
        if len(messages) == 1:
            summary = messages[0].headline if items[0].notice.chain in (None, "") else _about(messages[0])
        try:
            return self._channels[channel].tell(messages, summary, self._clock.now())
        except Exception as error:  # noqa: BLE001 - one channel's bug must not silence the others
            self._log.error("a channel broke", channel=channel, error=type(error).__name__, exc_info=True)
            return TryLater(f"channel {channel} broke with {type(error).__name__}; please report this")

    def _note(self, channel: str, items: Sequence[Item], answer: Answer, ledger: Ledger) -> str:
        """Write down what became of it. The sentence of a failure of the channel, or nothing."""
        now = self._clock.now()
        endpoint = ledger.endpoint(channel, now)
        took = isinstance(answer, Told)
        count(self._store, Counted.ALERTS_TOLD if took else Counted.ALERT_FAILURES, channel=channel)
        if isinstance(answer, TryLater):
            endpoint.tries += 1
            endpoint.next_try = now + pause_after(endpoint.tries, answer.after)
            endpoint.error = answer.why
            for item in items:
                self._failed(item, answer.why, endpoint.next_try)
            self._log.warning("an alert did not get through", channel=channel, why=answer.why, tries=endpoint.tries)
            return answer.why
        endpoint.tries, endpoint.next_try, endpoint.error = 0, None, ""
        if isinstance(answer, Told):
            endpoint.sent.append(now)
        for item in items:
            delivery = ledger.delivery(item.notice, channel)
            if isinstance(answer, Told):
                _say_told(delivery, item, now)
            else:
                delivery.tries += 1
                delivery.next_try = now + pause_after(delivery.tries)
                self._failed(item, answer.why, delivery.next_try)
            ledger.put(item.notice, channel, delivery)
        return ""

    def _failed(self, item: Item, why: str, next_try: datetime) -> None:
        if item.notice.delivered is None and item.tone in {Tone.NEW, Tone.LATE}:
            self._store.failed(item.notice.id, self._clock.now(), why, next_try)

    def _close(self, waiting: Sequence[Notice], ledger: Ledger, now: datetime) -> None:
        """Mark as delivered what every channel that is owed it has told."""
        if not self._settings.channels:
            return
        for notice in waiting:
            names = owed(self._settings, notice, self._routes)
            if all(ledger.delivery(notice, name).told is not None for name in names):
                self._store.delivered(notice.id, now)

    def _expire(self, ledger: Ledger, active: set[int]) -> None:
        """Of what is settled and was only informational nobody needs to hear that it is over."""
        for number, entry in ledger.entries.items():
            if number not in active and entry.notice.severity == "info":
                for delivery in entry.channels.values():
                    delivery.closed = delivery.closed or delivery.told is not None


def _say_told(delivery: Delivery, item: Item, now: datetime) -> None:
    delivery.tries, delivery.next_try, delivery.said_last = 0, None, now
    delivery.told = delivery.told or now
    delivery.reminders = max(delivery.reminders, item.times)
    delivery.closed = item.tone in {Tone.RECOVERED, Tone.LATE}


def _in_short(message: Message) -> Message:
    """What is left when a service refuses the full text: enough to look it up."""
    return replace(message, what="", why="", line="", source="", wants="The full text: chainwatch explain")


def _about(message: Message) -> str:
    chain = message.chain or ""
    return message.headline if chain in message.headline else f"{chain}: {message.headline}"
