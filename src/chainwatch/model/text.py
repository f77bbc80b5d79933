"""Text from logs and job names is hostile until proven otherwise: here it loses its power over terminals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC (titles, hyperlinks), DCS and friends
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_SECRETS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|ghp_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
    r"|https://hooks\.slack\.com/\S+"
)
_USERINFO = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_NAMED = re.compile(
    r"(?i)\b((?:[\w-]*(?:api[_-]?key|token|secret|passwd|password)|authorization)['\"]?\s*[=:]\s*['\"]?"
    r"(?:bearer\s+|basic\s+)?)([^\s'\",;]{6,})"
)


def clean(text: str, limit: int, *, one_line: bool = False) -> str:
    """Without terminal escapes, control characters, bidirectional overrides and lone surrogates; at most `limit`
    characters, the middle left out where it is longer."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    "))
    kept = "".join(c if c == "\n" or c.isprintable() else " " if c.isspace() else "" for c in text)
    kept = " ".join(kept.split()) if one_line else kept.strip("\n")
    return clip(kept, limit)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters: a long text keeps its beginning and its end, where the error usually is."""
    if len(text) <= limit:
        return text
    if limit < 20:
        return text[: max(0, limit - 1)] + "…"[:limit]
    head = (limit - 3) // 2
    return f"{text[:head]} … {text[-(limit - 3 - head) :]}"


def last_part(path: str) -> str:
    """What people call a checkpoint or a file by: the last part of its path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def redact(text: str) -> str:
    """Without what looks like a credential: log lines are quoted in alerts, and people print their environment."""
    text = _SECRETS.sub("[secret]", text)
    text = _USERINFO.sub("[secret]", text)
    return _NAMED.sub(lambda m: m[1] + "[secret]", text)


def some(names: Sequence[str], most: int = 5) -> str:
    """`a, b and 3 more`: the first `most` of the names, and how many there are beside them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def make_directories(missing: Sequence[str]) -> str:
    """The command that makes directories which are not there, its words quoted for a shell."""
    return shlex.join(["mkdir", "-p", *missing])
