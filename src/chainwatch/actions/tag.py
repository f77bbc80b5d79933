"""The tag by which a job is found again: it stands in the job's comment, beside the user's own."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

_TAG = re.compile(r"chainwatch=([0-9a-f]{8})/([A-Za-z0-9][A-Za-z0-9._-]*)/([0-9a-f]{16})(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class Tag:
    """Which state directory submitted a job, for which chain, under which intent."""

    instance: str
    """First eight hex digits of the state directory's id."""
    chain: str
    token: str

    def __str__(self) -> str:
        return f"chainwatch={self.instance}/{self.chain}/{self.token}"


def new_token() -> str:
    """A fresh token for one intent: 64 random bits."""
    return secrets.token_hex(8)


def short_instance(instance: str) -> str:
    """The part of the instance id that fits into a comment."""
    return instance.replace("-", "")[:8]


def find(*texts: str) -> Tag | None:
    """The tag in a job's comment (or submit line), or None. The last one counts: requeue scripts copy comments on."""
    for text in texts:
        matches = _TAG.findall(text or "")
        if matches:
            return Tag(*matches[-1])
    return None


def join(comment: str | None, tag: Tag) -> str:
    """The user's own comment with our tag behind it, any older tag of ours replaced."""
    own = _TAG.sub("", comment or "").strip()
    return f"{own} {tag}" if own else str(tag)
