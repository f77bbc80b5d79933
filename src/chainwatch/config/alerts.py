"""Who hears of what: alert channels, routes, mute windows and digests.

A channel's address is a secret (whoever has a webhook's URL can post), so it is named by `…_file` or `…_env`.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from chainwatch.config.secrets import read_secret
from chainwatch.config.section import Section
from chainwatch.config.values import Duration, ExpandedPath

Severity = Literal["info", "warning", "critical"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _time_of_day(value: Any) -> Any:
    """`09:30`. YAML 1.1 reads an unquoted 09:30 as text but 22:00 as 1320 (base 60), so that number is taken too."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return time(value // 60, value % 60)
    if isinstance(value, str):
        try:
            return time.fromisoformat(value.strip().zfill(5))
        except ValueError:
            raise ValueError("a time of day like 09:00 or 22:30 is expected") from None
    return value


TimeOfDay = Annotated[
    time,
    BeforeValidator(_time_of_day),
    PlainSerializer(lambda value: f"{value:%H:%M}", return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d{1,2}:\d{2}$", "examples": ["09:00", "22:30"]}),
]


class ChannelBase(Section):
    """What every channel has: whom it serves and how much it may be told."""

    secrets: ClassVar[tuple[str, ...]] = ("url",)

    severity: Severity = "info"
    """Least severity that this channel hears of."""
    chains: tuple[str, ...] = ("*",)
    """Chains that this channel hears of, as globs. What concerns no single chain is told on every channel."""
    at_once: tuple[str, ...] = ("done", "first_recovery")
    """Kinds of informational alerts that are told at once (`done`, `first_recovery`, `recovery`, `changed`); the
    others wait for the daily digest. What needs a person is always told at once."""
    after: Duration = timedelta(0)
    """For escalation: this channel hears only of what nobody has settled for this long."""
    per_hour: int = Field(default=30, ge=1)
    """Most messages in an hour; beyond that they wait and come as one."""
    deadline: Duration = timedelta(seconds=20)
    """After this long a try is given up, and made again later."""

    @model_validator(mode="before")
    @classmethod
    def _no_secret_in_the_open(cls, values: Any) -> Any:
        for name in cls.secrets if isinstance(values, dict) else ():
            named = [str(values[key]) for key in (f"{name}_file", f"{name}_env") if key in values]
            if name in values or any("://" in text for text in named):
                raise ValueError(
                    f"{name} is a secret and does not belong in a configuration: write it to a file of mode 0600 and "
                    f"name that with {name}_file, or use {name}_env"
                )
        return values

    @model_validator(mode="after")
    def _each_secret_named_once(self) -> Self:
        for name in self.required():
            given = [key for key in (f"{name}_file", f"{name}_env") if getattr(self, key)]
            if len(given) != 1:
                raise ValueError(f"exactly one of {name}_file and {name}_env is needed")
        return self

    def required(self) -> tuple[str, ...]:
        """Secrets that must be named."""
        return self.secrets

    def secret(self, name: str, channel: str) -> str:
        """The secret `name` of the channel called `channel`. Raises `SecretUnusable`."""
        return read_secret(
            getattr(self, f"{name}_file"), getattr(self, f"{name}_env"), f"the {name} of alert channel {channel}"
        )


class WebChannel(ChannelBase):
    """A channel that is an HTTP address."""

    url_file: ExpandedPath | None = None
    """File of mode 0600 that holds the URL."""
    url_env: str | None = None
    """Environment variable that holds the URL."""
    proxy: str | None = None
    """HTTP proxy to reach it by, `http://host:port`. The environment's proxy variables are not used."""
    ca_file: ExpandedPath | None = None
    """Certificates to trust, for a server with a private authority."""

    @field_validator("proxy")
    @classmethod
    def _proxy_is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("http://"):
            raise ValueError("a proxy like http://proxy.example.org:3128 is expected")
        return value


class Slack(WebChannel):
    """Slack, by an incoming webhook."""

    type: Literal["slack"]


class Mattermost(WebChannel):
    """Mattermost, by an incoming webhook."""

    type: Literal["mattermost"]


class JsonWebhook(WebChannel):
    """Any program that takes JSON over HTTP; the schema is documented, each message can be signed."""

    type: Literal["json"]
    key_file: ExpandedPath | None = None
    """File of mode 0600 with the key of the HMAC-SHA256 signature."""
    key_env: str | None = None
    """Environment variable with that key."""
    secrets: ClassVar[tuple[str, ...]] = ("url", "key")

    def required(self) -> tuple[str, ...]:
        return ("url", "key") if self.key_file or self.key_env else ("url",)


class Email(ChannelBase):
    """E-mail, by the machine's own sendmail or by SMTP."""

    type: Literal["email"]
    secrets: ClassVar[tuple[str, ...]] = ("password",)
    to: tuple[str, ...] = Field(min_length=1)
    """Addresses."""
    sender: str | None = None
    """From address; by default user@host."""
    smtp: str | None = None
    """SMTP server as host or host:port; without it sendmail is used."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection to the SMTP server is encrypted."""
    user: str | None = None
    """Name to log in with."""
    password_file: ExpandedPath | None = None
    """File of mode 0600 with the password."""
    password_env: str | None = None
    """Environment variable with the password."""
    sendmail: ExpandedPath | None = None
    """Path of the sendmail program; by default /usr/sbin/sendmail."""

    @field_validator("to", mode="before")
    @classmethod
    def _one_address(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("to")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            if address.count("@") > 1 or any(c in address for c in "\r\n,;<> ") or address.startswith("-"):
                raise ValueError("an address like person@example.org is expected")
        return value

    @model_validator(mode="after")
    def _password_never_in_the_clear(self) -> Self:
        if self.user and self.smtp and self.tls == "none":
            raise ValueError("tls: none would send the password in the clear; use starttls or tls")
        return self

    def required(self) -> tuple[str, ...]:
        return ("password",) if self.user else ()


class Apprise(ChannelBase):
    """Any of the services that Apprise knows (Discord, Teams, Telegram, ntfy …); `pip install chainwatch[apprise]`."""

    type: Literal["apprise"]
    url_file: ExpandedPath | None = None
    """File of mode 0600 with Apprise URLs, one a line."""
    url_env: str | None = None
    """Environment variable with an Apprise URL."""


Channel = Annotated[Slack | Mattermost | JsonWebhook | Email | Apprise, Field(discriminator="type")]


class Heartbeat(WebChannel):
    """A dead man's switch (healthchecks.io style): a URL that is asked as long as chainwatch runs *and sees*.

    It is withheld when polls are blind, so the service on the other side tells people when nobody here can.
    """

    every: Duration = timedelta(minutes=5)
    """Time between two beats."""
    method: Literal["GET", "POST", "HEAD"] = "GET"
    """HTTP method."""


class Mute(Section):
    """A window in which people are left alone. What would have been told then is told when it ends."""

    model_config = ConfigDict(serialize_by_alias=True)

    chains: tuple[str, ...] = ("*",)
    """Chains whose alerts are held back, as globs."""
    channels: tuple[str, ...] = ("*",)
    """Channels on which they are held back, as globs."""
    days: tuple[Day, ...] = ()
    """Days on which the window opens; by default every day."""
    start: TimeOfDay | None = Field(default=None, alias="from")
    """Time of day when it opens (`22:00`)."""
    end: TimeOfDay | None = Field(default=None, alias="to")
    """Time of day when it closes; earlier than `from` means the next morning."""
    since: datetime | None = None
    """Instead of times of day: from this moment …"""
    until: datetime | None = None
    """… to this one."""
    critical: bool = False
    """Hold back critical alerts too."""

    @model_validator(mode="after")
    def _a_window(self) -> Self:
        daily, once = (self.start, self.end), (self.since, self.until)
        if (None in daily) == (None in once) or (None not in daily and once != (None, None)):
            raise ValueError("a mute window is either from and to (times of day) or since and until (moments)")
        if self.days and None in daily:
            raise ValueError("days go with from and to")
        return self


class Alerts(Section):
    """Who hears of what."""

    channels: dict[str, Channel] = Field(default_factory=dict)
    """Channels by name."""
    heartbeat: Heartbeat | None = None
    """A URL that is asked as long as chainwatch runs and sees."""
    digest: TimeOfDay | Literal["never"] = time(9, 0)
    """When the daily digest of informational alerts is told; `never`: only `status` and the page show them."""
    timezone: str | None = None
    """Zone of all times of day here (`Europe/Berlin`); by default the machine's."""
    reminders: tuple[Duration, ...] = (timedelta(hours=4), timedelta(hours=12), timedelta(days=1))
    """What needs a person is told again after these times, the last one over and over, until it is settled. Empty:
    never."""
    burst: int = Field(default=4, ge=1)
    """More alerts than this at once come as one message."""
    mute: tuple[Mute, ...] = ()
    """Windows in which people are left alone."""
    runbook: str | None = None
    """Address under which the site keeps its own runbook (`https://wiki/chainwatch/`; the alert's name is appended).
    Without it alerts name the command that prints the page: `chainwatch runbook NAME`."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (OSError, ValueError, LookupError):
                raise ValueError(f"no time zone {value!r}; a name like Europe/Berlin is expected") from None
        return value

    @field_validator("reminders")
    @classmethod
    def _not_at_once(cls, value: tuple[timedelta, ...]) -> tuple[timedelta, ...]:
        if any(pause < timedelta(minutes=5) for pause in value):
            raise ValueError("a reminder sooner than 5m is a flood")
        return value

    @model_validator(mode="after")
    def _names_are_words(self) -> Self:
        for name in self.channels:
            if not name or any(c.isspace() for c in name):
                raise ValueError("a channel's name is one word")
        return self
