"""A channel that is an HTTP address: Slack, Mattermost and the generic JSON webhook differ in what they render."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from chainwatch.alerts.channel import Answer, TryLater
from chainwatch.alerts.http_post import Target, Unreachable, host_of, judged, request
from chainwatch.alerts.message import Message
from chainwatch.config.alerts import WebChannel
from chainwatch.config.secrets import SecretUnusable

Render: TypeAlias = Callable[[Sequence[Message], str], dict[str, Any]]
Sign: TypeAlias = Callable[[bytes, datetime], dict[str, str]]


def target(settings: WebChannel, name: str, allowed_hosts: tuple[str, ...] | None) -> Target:
    """Where a web channel points now. Raises `SecretUnusable`."""
    return Target(settings.secret("url", name), settings.deadline, settings.proxy, settings.ca_file, allowed_hosts)


class Webhook:
    """Implements `Channel`. The address is read anew for each message, so a rotated one needs no restart."""

    def __init__(
        self,
        name: str,
        settings: WebChannel,
        render: Render,
        *,
        expected: str | None = None,
        sign: Sign | None = None,
        allowed_hosts: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self._settings, self._render, self._expected = settings, render, expected
        self._sign, self._allowed = sign, allowed_hosts

    def tell(self, messages: Sequence[Message], summary: str, now: datetime) -> Answer:
        body = json.dumps(self._render(messages, summary)).encode()
        try:
            where = target(self._settings, self.name, self._allowed)
            headers = {"Content-Type": "application/json"} | (self._sign(body, now) if self._sign else {})
            return judged(request(where, "POST", body, headers, now), host_of(where.url), self._expected)
        except (SecretUnusable, Unreachable) as error:
            return TryLater(str(error))
