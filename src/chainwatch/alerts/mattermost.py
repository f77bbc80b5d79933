"""Mattermost, by an incoming webhook, in Markdown. Mentions are possible there, so every `@` outside our own command is
defused; code blocks have a fence that their text cannot close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainwatch.alerts.message import Message
from chainwatch.alerts.text import defused, fenced, markdown
from chainwatch.model.text import clip

_SIGN = {"info": "ℹ️", "warning": "⚠️", "critical": "🛑"}
_LONGEST = 16000
"""Mattermost takes 16,383 characters (servers before 5.0 took 4,000)."""


def payload(messages: Sequence[Message], summary: str) -> dict[str, Any]:
    """The webhook's JSON: one message in full, or a digest with a line each."""
    text = _one(messages[0]) if len(messages) == 1 else _many(messages, summary)
    return {"text": text}


def _one(message: Message) -> str:
    parts = [f"#### {_SIGN[message.severity]} {markdown(message.headline)}"]
    parts += [f"**{label}**: {markdown(text)}" for label, text in message.facts()]
    if message.line:
        where = f" ({markdown(message.source)})" if message.source else ""
        parts.append(f"**Proof**{where}:\n{fenced(defused(message.line))}")
    if message.command:
        parts.append(f"**Type**:\n{fenced(message.command)}")
    parts.append(f"{message.created:%Y-%m-%d %H:%M} UTC · {message.severity} · {markdown(message.runbook)}")
    return "\n\n".join(parts)


def _many(messages: Sequence[Message], summary: str) -> str:
    out = f"#### {markdown(summary)}"
    each = max(60, (_LONGEST // 2 - len(out)) // len(messages))
    for message in messages:
        detail = message.wants or message.did or message.why or message.what
        line = f"{message.created:%d %b %H:%M} {message.headline}" + (f": {detail}" if detail else "")
        out += f"\n- {_SIGN[message.severity]} {markdown(clip(line.replace(chr(10), ' '), each // 2))}"
    return out
