"""Parts of the pages: attempts with their verdicts, alerts, nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from chainwatch.model.chain import Attempt, ExcludedNode
from chainwatch.model.durations import age
from chainwatch.model.verdict import Verdict
from chainwatch.store.records import Notice
from chainwatch.web.api import safe
from chainwatch.web.html import Child, Markup, tag
from chainwatch.web.timeline import family
from chainwatch.web.words import table, when

_HEADS = ("#", "Job", "Started", "Waited", "Ran", "Steps", "Saved", "Why it ended")


def attempts(of: Sequence[Attempt], now: datetime) -> Markup:
    """The attempts, newest first, each with its verdict to open."""
    return table(_HEADS, [_attempt(one, now) for one in reversed(of)], "Attempts")


def _attempt(attempt: Attempt, now: datetime) -> tuple[Child, ...]:
    start, end = attempt.job.start, attempt.ended or attempt.job.end or now
    submitted = attempt.job.attempt.submitted
    lives = attempt.ended is None and attempt.verdict is None
    why: Child = verdict(attempt.verdict, attempt) if attempt.verdict else ("it runs" if lives else "not judged yet")
    return (
        tag("span", attempt.number, class_=f"count {family(attempt)}"),
        attempt.job.shown_id,
        when(start) if start else "pending",
        age((start or end) - submitted) if (start or end) > submitted else "",
        age(end - start) if start else "",
        _reached(attempt),
        "" if attempt.saved_after is None else f"{attempt.saved_after:,}",
        why,
    )


def _reached(attempt: Attempt) -> str:
    if attempt.step_after is None:
        return ""
    begun = attempt.saved_before if attempt.saved_before is not None else attempt.step_before
    return f"{begun or 0:,}\u00a0→\u00a0{attempt.step_after:,}"  # on one line


def verdict(of: Verdict, attempt: Attempt | None = None) -> Markup:
    """The verdict in a line; its evidence, advice and what was ruled out when it is opened."""
    lines = [
        (tag("dt", safe(line.source), f":{line.line}" if line.line else ""), tag("dd", tag("code", safe(line.text))))
        for line in of.evidence
    ]
    ruled_out = [tag("li", f"not {reading.cause.value}: ", safe(reading.why)) for reading in of.ruled_out]
    weaker = [tag("li", safe(one)) for one in of.weaker]
    summary = tag("summary", safe(of.sentence), " ", tag("span", of.cause.value, class_="dim"))
    resumed = attempt.resumed_from if attempt is not None else None
    detail = (
        tag("p", safe(of.advice)) if of.advice else None,
        tag("dl", *lines, class_="evidence") if lines else None,
        tag("p", "Resumed from ", tag("code", safe(resumed))) if resumed else None,
        tag("ul", *ruled_out) if ruled_out else None,
        (tag("p", "Could not be looked at:"), tag("ul", *weaker)) if weaker else None,
        tag("p", f"confidence {of.confidence:.0%}", class_="dim"),
    )
    return tag("details", summary, *detail)


def alerts(notices: Sequence[Notice], now: datetime) -> Markup | None:
    """What people are owed, or were told and is not settled."""
    if not notices:
        return None
    items = [_alert(notice, now) for notice in notices]
    return tag("section", tag("h2", "Open alerts"), tag("ul", *items), class_="alerts")


def _alert(notice: Notice, now: datetime) -> Markup:
    told = "" if notice.delivered else f", not told yet{': ' + safe(notice.last_error) if notice.last_error else ''}"
    parts = [safe(str(notice.body[key])) for key in ("why", "wants") if notice.body.get(key)]
    command = str(notice.body.get("command") or "")
    return tag(
        "li",
        tag("strong", safe(notice.title)),
        tag("span", f" for {age(now - notice.created)}{told}", class_="dim"),
        tag("p", " ".join(part.rstrip(".") + "." for part in parts)) if parts else None,
        tag("p", tag("code", safe(command))) if command else None,
        class_=notice.severity if notice.severity in {"warning", "critical"} else "info",
    )


def nodes(excluded: Sequence[ExcludedNode]) -> Markup | None:
    """The nodes that are kept away from."""
    if not excluded:
        return None
    rows = [(n.node, safe(n.why), n.chain or "every chain", when(n.until)) for n in excluded]
    return tag("section", tag("h3", "Nodes kept away from"), table(("Node", "Why", "Chain", "Until"), rows))
