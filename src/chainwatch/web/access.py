"""Who may read over TCP: every user of a login node reaches its loopback, so only who has the token."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

COOKIE = "chainwatch"


class Access:
    """One token and the sessions that browsers got for it.

    A browser opens `/?token=…` once and gets a cookie (HttpOnly, SameSite=Strict), so that the token stands in no link
    that it sends on. `one_time`: the token is used up by that.
    """

    def __init__(self, token: str, *, one_time: bool = False) -> None:
        if len(token) < 16:
            raise ValueError("a token of at least 16 characters is needed: any user of the node can try")
        self._token: str | None = token
        self._one_time = one_time
        self._session = secrets.token_urlsafe(32)

    def allows(self, headers: Mapping[str, str]) -> bool:
        """The request carries the token, or the cookie that was given for it."""
        if self.has_token(headers):
            return True
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and _same(morsel.value, self._session)

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """The request carries the token itself, which no browser sends by itself."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(given.strip())

    def open(self, token: str) -> str | None:
        """The Set-Cookie header for a browser that brings the token; None if it is wrong or used up."""
        if not self._is_token(token):
            return None
        if self._one_time:
            self._token = None
        return f"{COOKIE}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    def _is_token(self, given: str) -> bool:
        return self._token is not None and _same(given, self._token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
