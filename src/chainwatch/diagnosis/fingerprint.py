"""One name for one failure: the same on another node, at another step, in another directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping

from chainwatch.model.verdict import Cause

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^\s*(?:\[rank ?\d+\]:?|\[default\d+\]:|\d{1,6}:)\s*"), ""),
    (re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T_ ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"https?://([^/\s'\"]+)[^\s'\"]*"), r"<url \1>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?:[:<]\d+>?)?"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?\b"), "<bus>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"(?:[\w.~-]*/)+[\w.@%+=~-]+"), "<path>"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<id>"),
    (re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "#"),
    (re.compile(r"\s+"), " "),
)
_ENTITIES = ("xid", "module", "service", "error", "status", "signal")


def normalise(line: str, nodes: Collection[str] = ()) -> str:
    """`line` without what changes from one time to the next: ranks, times, addresses, paths, hosts, numbers."""
    line = _ANSI.sub("", line)
    for node in sorted(nodes, key=len, reverse=True):
        line = re.sub(rf"(?<![\w-]){re.escape(node)}(?![\w-])", "<node>", line)
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)
    return line.strip()[:300]


def fingerprint(cause: Cause, line: str, extracted: Mapping[str, str], nodes: Collection[str] = ()) -> str:
    """Name of the failure: cause, and a digest of the normalised line with what it concerns (an Xid, a service …)."""
    entity = ",".join(f"{key}={extracted[key]}" for key in _ENTITIES if extracted.get(key))
    digest = hashlib.sha256(f"{normalise(line, nodes)}|{entity}".encode()).hexdigest()
    return f"{cause.value}:{digest[:12]}"
