"""Text in chats: no word becomes a mention or markup."""

from __future__ import annotations

import re

_ZERO_WIDTH = "\u200b"


def defused(text: str) -> str:
    """No word can become a mention: a zero-width space follows each `@`."""
    return text.replace("@", "@" + _ZERO_WIDTH)


def fenced(text: str) -> str:
    """The text as a Markdown code block that it cannot break out of: the fence is longer than any run inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def markdown(text: str) -> str:
    """The text with every character that Markdown could read as markup escaped, and mentions defused."""
    escaped = re.sub(r"([\\`*_{}\[\]()#+\-.!|<>~:&$])", r"\\\1", text)
    return defused(escaped).replace("\n", "  \n")
