"""How chainwatch speaks in its log: lines for people on a terminal, JSON in a pipe, fields in the journal.

One line per decision, with chain, attempt, cause and reason; nothing when nothing happens, but a sign of life once an
hour. What looks like a credential is taken out of every value before it is written anywhere.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

import structlog

from chainwatch.model.text import clean, redact
from chainwatch.store.records import ChainRecord

LEVELS = ("debug", "info", "warning", "error")
Style: TypeAlias = Literal["auto", "human", "json", "journal"]
_Event: TypeAlias = MutableMapping[str, Any]
JOURNAL = Path("/run/systemd/journal/socket")
_PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_SIGN = {"debug": "·", "info": " ", "warning": "!", "error": "✗", "critical": "✗"}


def configure(
    level: str = "info", style: Style = "auto", stream: TextIO | None = None, journal: Path = JOURNAL
) -> Style:
    """Set logging up for this process, and tell which style was chosen.

    `auto`: the journal where systemd connected this stream to it, lines where it is a terminal, otherwise JSON.
    """
    out = stream or sys.stderr
    if style == "auto":
        style = "journal" if to_journal(out) else "human" if out.isatty() else "json"
    writer: Callable[[_Event], None]
    if style == "journal":
        writer = Journal(journal, out).write
    elif style == "human":
        writer = Lines(out).write
    else:
        writer = Json(out).write
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            without_secrets,
            _Sink(writer),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    return style


def to_journal(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """The stream is the one that systemd connected to the journal (JOURNAL_STREAM, systemd.exec(5))."""
    named = (os.environ if environment is None else environment).get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{found.st_dev}:{found.st_ino}"


def without_secrets(_: Any, __: str, event: _Event) -> _Event:
    """Every value without credentials and control characters; keys that name a secret lose their value."""
    return {key: _cleaned(key, value) for key, value in event.items()}


def decisions(logger: Any = None) -> Callable[[str, ChainRecord, Mapping[str, object]], None]:
    """The loop's voice: one line per chain that changed."""

    def say(sentence: str, record: ChainRecord, facts: Mapping[str, object]) -> None:
        log = logger or structlog.get_logger("chainwatch")
        named = {"chain": record.name, "state": record.state.value} | {str(k): v for k, v in facts.items()}
        error = named.pop("exc_info", None)
        (log.error if isinstance(error, BaseException) else log.info)(sentence, **named, exc_info=error)

    return say


class SignOfLife:
    """A line when nothing was said for an hour, so that a quiet log and a dead daemon can be told apart."""

    def __init__(self, every: timedelta = timedelta(hours=1)) -> None:
        self._every = every
        self._last: datetime | None = None

    def spoke(self, now: datetime) -> None:
        """Something was said."""
        self._last = now

    def turn(self, now: datetime, summary: str) -> bool:
        """Say `summary` if it is time; True if it was said."""
        if self._last is None:
            self._last = now
        if now - self._last < self._every:
            return False
        structlog.get_logger("chainwatch").info(summary)
        self._last = now
        return True


class Lines:
    """For people: time, sign, chain, sentence, and what else is known."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, event: _Event) -> None:
        rest = dict(event)
        level, time, sentence = rest.pop("level", "info"), str(rest.pop("time", "")), str(rest.pop("event", ""))
        chain, trace = rest.pop("chain", None), rest.pop("exception", None)
        shown = " ".join(f"{key}={_word(value)}" for key, value in rest.items() if value not in (None, "", [], ()))
        where = f"{chain}: " if chain and not sentence.startswith(f"{chain}:") else ""
        line = f"{time[11:19]} {_SIGN.get(level, ' ')} {where}{sentence}{f'  ({shown})' if shown else ''}"
        line = " ".join(line.splitlines())  # one event is one line: a name or a log line cannot forge another
        print(line if trace is None else f"{line}\n{trace}", file=self._out, flush=True)


class Json:
    """For programs: one object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._render = structlog.processors.JSONRenderer(default=str, ensure_ascii=True)

    def write(self, event: _Event) -> None:
        ordered = {key: event[key] for key in ("time", "level", "event") if key in event} | dict(event)
        print(self._render(None, "", ordered), file=self._out, flush=True)


class Journal:
    """For journald, in its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): `journalctl CHAINWATCH_CHAIN=run-a`."""

    def __init__(self, path: Path, fallback: TextIO) -> None:
        self._path, self._fallback = path, fallback
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def write(self, event: _Event) -> None:
        rest = dict(event)
        level, sentence = rest.pop("level", "info"), str(rest.pop("event", ""))
        rest.pop("time", None)  # the journal has its own
        trace = rest.pop("exception", None)
        chain = rest.get("chain")
        where = f"{chain}: " if chain and not sentence.startswith(f"{chain}:") else ""
        message = where + sentence + (f"\n{trace}" if trace else "")
        fields = {"MESSAGE": message, "PRIORITY": str(_PRIORITY.get(level, 6)), "SYSLOG_IDENTIFIER": "chainwatch"}
        fields |= {f"CHAINWATCH_{_field(key)}": _word(value) for key, value in rest.items()}
        data = b"".join(_encoded(name, value) for name, value in fields.items())
        try:
            self._socket.sendto(data, str(self._path))
        except OSError:  # too long for a datagram, or no journal: systemd reads priorities from a prefix
            head = message.splitlines()[0][:2000] if message else ""
            print(f"<{fields['PRIORITY']}>{head}", file=self._fallback, flush=True)


class _Sink:
    """The last processor: writes the event and drops it, so that structlog prints nothing itself."""

    def __init__(self, write: Callable[[_Event], None]) -> None:
        self._write = write

    def __call__(self, _: Any, __: str, event: _Event) -> str:
        try:
            self._write(event)
        except (OSError, ValueError):
            pass  # a closed pipe must not stop the loop
        raise structlog.DropEvent


_NAMES = ("token", "secret", "password", "passwd", "api_key", "authorization", "cookie")


def _cleaned(key: str, value: Any) -> Any:
    if isinstance(value, str):
        if any(name in key.lower() for name in _NAMES):
            return "[secret]"
        return redact(clean(value, 20_000))
    if isinstance(value, Mapping):
        return {str(k): _cleaned(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(key, one) for one in value]
    if isinstance(value, bool | int | float | None):
        return value
    return redact(clean(str(value), 2000))


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value))
    text = str(value)
    return f'"{text}"' if any(c.isspace() for c in text) else text


def _field(key: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in key).upper()[:40]


def _encoded(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
