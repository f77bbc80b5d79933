"""One line per decision: human on a terminal, JSON in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

import structlog

from chainwatch.store.records import ChainRecord


def set_up(stream: TextIO = sys.stderr, *, debug: bool = False, json: bool | None = None) -> None:
    """Configure structlog for the daemon: colours only on a terminal, JSON where the stream is none (or `json`)."""
    as_json = not stream.isatty() if json is None else json
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
    ]
    if as_json:
        shared += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        shared += [structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=0)]
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(10 if debug else 20),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def say(sentence: str, record: ChainRecord, facts: Mapping[str, object]) -> None:
    """The daemon's `Say`: an error where something broke, a plain line otherwise."""
    log = structlog.get_logger()
    error = facts.get("exc_info")
    shown = {k: v for k, v in facts.items() if k != "exc_info" and v not in (None, "", [])}
    if isinstance(error, BaseException):
        log.error(sentence, chain=record.name, exc_info=error, **shown)
    else:
        log.info(sentence, chain=record.name, **shown)
