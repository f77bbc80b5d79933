"""Everything else that Apprise reaches (Discord, Teams, Telegram, ntfy …), as an optional extra.

Apprise renders for each service itself; it is given plain text, with mentions defused.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from chainwatch.alerts.channel import Answer, Told, TryLater
from chainwatch.alerts.message import Message, plain
from chainwatch.alerts.text import defused
from chainwatch.config.alerts import Apprise
from chainwatch.config.secrets import SecretUnusable

_TYPES = {"info": "info", "warning": "warning", "critical": "failure"}


class AppriseChannel:
    """Implements `Channel`."""

    def __init__(self, name: str, settings: Apprise) -> None:
        self.name, self._settings = name, settings

    def tell(self, messages: Sequence[Message], summary: str, now: datetime) -> Answer:
        try:
            import apprise
        except ImportError:
            return TryLater("the package apprise is not installed; run: pip install 'chainwatch[apprise]'")
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its messages name the URLs, which are secrets
        try:
            urls = self._settings.secret("url", self.name).split()
        except SecretUnusable as error:
            return TryLater(str(error))
        services: Any = apprise.Apprise()
        for number, url in enumerate(urls, 1):
            if not services.add(url):
                return TryLater(f"the URL number {number} of alert channel {self.name} is none that Apprise knows")
        worst = max(messages, key=lambda m: ("info", "warning", "critical").index(m.severity))
        text = defused("\n\n".join(map(plain, messages)))
        told = services.notify(
            body=text, title=defused(summary), notify_type=_TYPES[worst.severity], body_format=apprise.NotifyFormat.TEXT
        )
        return Told() if told else TryLater(f"a service of alert channel {self.name} did not take the message")
