"""From a configured channel to one that speaks. Adding a kind of channel: a file that renders, and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from chainwatch.alerts import json_webhook, mattermost, slack
from chainwatch.alerts.apprise_extra import AppriseChannel
from chainwatch.alerts.channel import Answer, Channel, TryLater
from chainwatch.alerts.http_post import allowed
from chainwatch.alerts.mail import MailChannel
from chainwatch.alerts.message import Message
from chainwatch.alerts.webhook import Webhook
from chainwatch.config.alerts import Apprise, Email, JsonWebhook, Mattermost, Slack
from chainwatch.config.alerts import Channel as Settings


def build(name: str, settings: Settings, allowed_hosts: tuple[str, ...] | None = None) -> Channel:
    """The channel `name`. `allowed_hosts` is the site's word on where webhooks may point."""
    match settings:
        case Slack():
            return Webhook(name, settings, slack.payload, expected="ok", allowed_hosts=allowed_hosts)
        case Mattermost():
            return Webhook(name, settings, mattermost.payload, expected="ok", allowed_hosts=allowed_hosts)
        case JsonWebhook():
            sign = partial(_signed, settings, name) if settings.key_file or settings.key_env else None
            return Webhook(name, settings, json_webhook.payload, sign=sign, allowed_hosts=allowed_hosts)
        case Email():
            if allowed_hosts is not None and settings.smtp and not allowed(_server(settings.smtp), allowed_hosts):
                return Closed(name, f"mail by {settings.smtp}", allowed_hosts)
            return MailChannel(name, settings)
        case Apprise():
            if allowed_hosts is not None:  # where an Apprise address really leads, only its plug-in knows
                return Closed(name, "what Apprise reaches", allowed_hosts)
            return AppriseChannel(name, settings)


@dataclass(slots=True)
class Closed:
    """Implements `Channel`: one that the site does not allow. What is owed to it waits, and the trouble is told."""

    name: str
    what: str
    hosts: tuple[str, ...]

    def tell(self, messages: Sequence[Message], summary: str, now: datetime) -> Answer:
        return TryLater(f"this site does not allow {self.what} (allowed hosts: {', '.join(self.hosts) or 'none'})")


def _server(smtp: str) -> str:
    return smtp.rpartition(":")[0].strip("[]") if ":" in smtp else smtp


def build_all(settings: Mapping[str, Settings], allowed_hosts: tuple[str, ...] | None = None) -> dict[str, Channel]:
    """All channels by name."""
    return {name: build(name, one, allowed_hosts) for name, one in settings.items()}


def _signed(settings: JsonWebhook, name: str, body: bytes, now: datetime) -> dict[str, str]:
    return {json_webhook.HEADER: json_webhook.signature(settings.secret("key", name), body, now)}
