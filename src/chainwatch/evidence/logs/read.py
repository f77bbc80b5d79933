"""The logs of one attempt, file by file, as one evidence."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime

from chainwatch.evidence.logs.file import Unreadable
from chainwatch.evidence.logs.scan import Found, Limits, LogFile, Scan
from chainwatch.evidence.progress import ProgressReader
from chainwatch.model.plain_file import may_exist
from chainwatch.model.verdict import Finding, LogEvidence
from chainwatch.signatures import Matcher, builtin_matcher

_KEPT = 8
"""Findings of one signature and file that become evidence."""


def read_logs(
    files: Sequence[LogFile],
    *,
    matcher: Matcher | None = None,
    since: datetime | None = None,
    nodes: Collection[str] = (),
    progress: ProgressReader | None = None,
    limits: Limits = Limits(),
) -> LogEvidence:
    """What the logs of one attempt say.

    `since` is when the attempt started: lines that are surely older are left out. `nodes` are the attempt's nodes, so
    that `n01: ` at the head of a line can be told from a word. Files that cannot be read are named in `problem`; if
    none can, the evidence is not `readable`, which is no information rather than a clean log.
    """
    matcher = matcher or builtin_matcher()
    progress = progress or ProgressReader()
    problems: list[str] = []
    no_directory: list[str] = []
    found: list[Found] = []
    for number, file in enumerate(files):
        scan = Scan(number, file, matcher, progress, since, frozenset(nodes), limits)
        try:
            found.append(scan.run())
        except Unreadable as error:
            problems.append(str(error))
            folder = os.path.dirname(file.path)
            if folder and not may_exist(folder):
                no_directory.append(folder)
    findings = sorted(
        (finding for result in found for group in result.findings.values() for finding in _capped(group)),
        key=lambda finding: finding.order,
    )
    signalled = [line for result in found for _, line in sorted(result.signalled, key=lambda item: item[0])]
    newest = max((result.newest for result in found if result.newest), key=lambda reached: reached.step, default=None)
    return LogEvidence(
        files=tuple(file.path for file in files),
        readable=bool(found),
        problem="; ".join(problems) if files else "no log file is known",
        no_directory=tuple(dict.fromkeys(no_directory)),
        findings=tuple(findings),
        tail=max((result.tail for result in found), key=len, default=()),
        bytes_read=sum(result.bytes_read for result in found),
        signalled=tuple(signalled[:20]),
        unread=sum(result.unread for result in found),
        step=newest.step if newest else None,
        total=newest.total if newest else None,
        loss=newest.loss if newest else None,
    )


def _capped(group: list[Finding]) -> list[Finding]:
    """The first few and the last of one signature: a thousand like lines say no more."""
    ordered = sorted(group, key=lambda finding: finding.order)
    return ordered if len(ordered) <= _KEPT else [*ordered[: _KEPT - 1], ordered[-1]]
