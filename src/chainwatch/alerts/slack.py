"""Slack, by an incoming webhook, in Block Kit.

Text stands in `plain_text` and preformatted `rich_text` elements, which know no markup: nothing from a log can become
a link, a mention or a button. Only the notification's fallback `text` is mrkdwn, and is escaped as Slack asks
(https://api.slack.com/reference/surfaces/formatting#escaping).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainwatch.alerts.message import Message
from chainwatch.alerts.text import defused
from chainwatch.model.text import clip

_SIGN = {"info": "ℹ️", "warning": "⚠️", "critical": "🛑"}


def escaped(text: str) -> str:
    """As Slack's mrkdwn wants it: three characters are special, and so cannot begin a mention or a link."""
    return defused(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def payload(messages: Sequence[Message], summary: str) -> dict[str, Any]:
    """The webhook's JSON: one message in full, or a digest with a line each."""
    blocks = _one(messages[0]) if len(messages) == 1 else _many(messages, summary)
    return {"text": escaped(clip(summary, 3000)), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _one(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _text(f"{_SIGN[message.severity]} {message.headline}", 150)}
    ]
    if message.facts():
        lines = "\n".join(f"{label}: {clip(text, 600)}" for label, text in message.facts())
        blocks.append({"type": "section", "text": _text(lines, 3000)})
    if message.line:
        blocks.append(_code(message.line, f"Proof ({message.source}):" if message.source else "Proof:"))
    if message.command:
        blocks.append(_code(message.command, "Type:"))
    since = f"{message.created:%Y-%m-%d %H:%M} UTC · {message.severity} · {message.runbook}"
    blocks.append({"type": "context", "elements": [_text(since, 300)]})
    return blocks


def _many(messages: Sequence[Message], summary: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _text(summary, 150)}]
    for message in messages[:45]:
        detail = message.wants or message.did or message.why or message.what
        line = f"{_SIGN[message.severity]} {message.created:%d %b %H:%M} {message.headline}"
        blocks.append({"type": "section", "text": _text(f"{line}\n{detail}" if detail else line, 900)})
    if len(messages) > 45:
        rest = "\n".join(clip(m.headline, 100) for m in messages[45:])
        blocks.append({"type": "section", "text": _text(rest, 3000)})
    return blocks


def _text(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": clip(defused(text), limit) or "—", "emoji": False}


def _code(text: str, label: str) -> dict[str, Any]:
    plain = [{"type": "text", "text": text}]
    return {
        "type": "rich_text",
        "elements": [
            {"type": "rich_text_section", "elements": [{"type": "text", "text": label, "style": {"bold": True}}]},
            {"type": "rich_text_preformatted", "elements": plain},
        ],
    }
