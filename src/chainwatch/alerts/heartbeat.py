"""The dead man's switch: a URL that is asked while chainwatch runs and sees, and is left alone when it does not."""

from __future__ import annotations

from datetime import datetime

from chainwatch.alerts.channel import Answer, TryLater, Unwelcome
from chainwatch.alerts.http_post import Unreachable, host_of, judged, request
from chainwatch.alerts.webhook import target
from chainwatch.config.alerts import Heartbeat
from chainwatch.config.secrets import SecretUnusable


class HeartbeatSender:
    """Sends at most one beat in `every`. Kept in memory only: after a restart one beat more does no harm."""

    def __init__(self, settings: Heartbeat, allowed_hosts: tuple[str, ...] | None = None) -> None:
        self._settings, self._allowed = settings, allowed_hosts
        self._last: datetime | None = None

    def beat(self, now: datetime, *, sees: bool) -> Answer | None:
        """Ask the URL if it is time and chainwatch `sees` (its polls are fresh). None: nothing was sent.

        A beat that failed is tried again in the next call: the service allows for a gap, not for many.
        """
        if not sees or (self._last is not None and now - self._last < self._settings.every):
            return None
        try:
            where = target(self._settings, "heartbeat", self._allowed)
            answer = judged(request(where, self._settings.method, None, {}, now), host_of(where.url))
        except (SecretUnusable, Unreachable) as error:
            return TryLater(str(error))
        if not isinstance(answer, TryLater | Unwelcome):
            self._last = now
        return answer
