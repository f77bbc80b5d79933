"""The generic webhook: documented JSON, signed.

The signature stands in `X-Chainwatch-Signature: t=<epoch seconds>,v1=<hex>`, where hex is the HMAC-SHA256 of
`<t>.<body>` under the shared key. A receiver recomputes it, and refuses what is older than a few minutes (a replay).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from chainwatch.alerts.message import Message, Tone, as_dict

HEADER = "X-Chainwatch-Signature"


class AlertDocument(BaseModel):
    """One alert. All text is plain: no markup, no control characters."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    title: str
    severity: Literal["info", "warning", "critical"]
    kind: str
    """person, done, first_recovery, recovery, changed, incident, hang, blind, pending, pause_over, early, test, other; more
    may come."""
    chain: str | None
    """None where it concerns no single chain."""
    created: datetime
    what: str
    """What ended or happened."""
    why: str
    line: str
    """The line that proves it, verbatim apart from control characters and secrets."""
    source: str
    """Where that line stands."""
    did: str
    """What chainwatch did."""
    wants: str
    """What a person should do."""
    command: str
    """The command to type."""
    runbook: str
    tone: Tone
    times: int
    """How many reminders went before."""
    key: str
    """The same for an alert, its reminders and its recovery."""
    notice: int
    """Number of the alert in its state database: with `tone` and `times` it tells a repeated delivery."""


class WebhookDocument(BaseModel):
    """The body of each POST. Fields may be added; `version` counts up when one changes its meaning."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    version: Literal[1]
    summary: str
    """One line for people."""
    alerts: list[AlertDocument]
    """One, or several where many came at once."""


def payload(messages: Sequence[Message], summary: str) -> dict[str, Any]:
    """The body, as `WebhookDocument` describes it."""
    return {"version": 1, "summary": summary, "alerts": [as_dict(message) for message in messages]}


def schema() -> dict[str, Any]:
    """JSON Schema of the body."""
    return WebhookDocument.model_json_schema()


def signature(key: str, body: bytes, at: datetime) -> str:
    """Value of the signature header."""
    stamp = str(int(at.timestamp()))
    digest = hmac.new(key.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={stamp},v1={digest}"
