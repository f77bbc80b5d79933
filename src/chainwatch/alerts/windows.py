"""Mute windows and the moment of the daily digest, in the people's own time zone."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from chainwatch.config.alerts import Alerts, Mute
from chainwatch.store.records import Notice

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def last_digest(settings: Alerts, now: datetime) -> datetime:
    """The newest moment not after `now` at which a digest is due."""
    if not isinstance(settings.digest, time):
        raise ValueError("no digest is configured")
    today = _local(settings, now).date()
    moment = _at(settings, today, settings.digest)
    return moment if moment <= now else _at(settings, today - timedelta(days=1), settings.digest)


def muted(settings: Alerts, channel: str, notice: Notice, now: datetime) -> bool:
    """A window holds this alert back on this channel."""
    return any(
        _concerns(window, channel, notice) and is_open(settings, window, now)
        for window in settings.mute
        if window.critical or notice.severity != "critical"
    )


def is_open(settings: Alerts, window: Mute, now: datetime) -> bool:
    """The window is open now. One that ends before it begins ends the next morning and belongs to the day before."""
    if window.since is not None and window.until is not None:
        return _aware(settings, window.since) <= now < _aware(settings, window.until)
    if window.start is None or window.end is None:
        return False
    local = _local(settings, now)
    at = local.time()
    if window.start < window.end:
        return window.start <= at < window.end and _on(window, local.date())
    return (at >= window.start and _on(window, local.date())) or (
        at < window.end and _on(window, local.date() - timedelta(days=1))
    )


def _concerns(window: Mute, channel: str, notice: Notice) -> bool:
    return any(fnmatchcase(channel, glob) for glob in window.channels) and (
        any(fnmatchcase(notice.chain, glob) for glob in window.chains) if notice.chain else "*" in window.chains
    )


def _on(window: Mute, day: date) -> bool:
    return not window.days or _DAYS[day.weekday()] in window.days


def _local(settings: Alerts, now: datetime) -> datetime:
    return now.astimezone(ZoneInfo(settings.timezone) if settings.timezone else None)


def _aware(settings: Alerts, moment: datetime) -> datetime:
    if moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=ZoneInfo(settings.timezone)) if settings.timezone else moment.astimezone()


def _at(settings: Alerts, day: date, at: time) -> datetime:
    return _aware(settings, datetime.combine(day, at))
