"""The pages: all chains at a glance, and one chain with its history. Pure; tables need no JavaScript, nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from chainwatch.config.values import show_duration
from chainwatch.model.chain import Attempt, ChainState, Decision, ExcludedNode
from chainwatch.model.verdict import Verdict
from chainwatch.store.codec import decision_kind
from chainwatch.store.records import ChainRecord, Notice
from chainwatch.web.api import safe
from chainwatch.web.html import Child, Markup, document, tag
from chainwatch.web.timeline import LEGEND, progress_plot, timeline
from chainwatch.web.view import View, eta_seconds, rate

_FIRST = {ChainState.STOPPED: 0, ChainState.RESTING: 1, ChainState.RECOVERING: 2, ChainState.WAITING: 3}


def overview(view: View, active: Sequence[Notice]) -> Markup:
    """All chains: what needs a person first."""
    chains = sorted(view.chains, key=lambda c: (_FIRST.get(c.state, 5), c.state is ChainState.DONE, c.name))
    rows = [_row(chain, view.now) for chain in chains]
    alerts = [n for n in active if n.severity != "info"]
    return document(
        f"chainwatch: {len(chains)} chains",
        _header(view),
        tag(
            "main",
            _alerts(alerts, view.now) if alerts else None,
            tag("h2", "Chains"),
            _table(("Chain", "State", "Since", "Step", "Left", "What was decided, and why"), rows)
            if rows
            else tag("p", "No chain is registered yet. `chainwatch submit` and `chainwatch sbatch` begin one."),
            _excluded(view.excluded) if view.excluded else None,
            id="content",
        ),
    )


def chain_page(
    view: View,
    chain: ChainRecord,
    attempts: Sequence[Attempt],
    decisions: Sequence[tuple[datetime, int | None, Decision, str]],
    excluded: Sequence[ExcludedNode],
    active: Sequence[Notice],
) -> Markup:
    """One chain: timeline, progress, verdicts with evidence, decisions, nodes."""
    newest = list(reversed(attempts))
    plot = progress_plot(attempts, chain.target, view.now)
    return document(
        f"{chain.name}: {chain.state.value}",
        _header(view),
        tag(
            "main",
            tag("p", tag("a", "All chains", href="/"), class_="back"),
            tag("h2", chain.name, " ", _badge(chain.state)),
            tag("p", safe(chain.sentence), class_="sentence"),
            _facts(chain, view.now),
            _alerts(active, view.now) if active else None,
            tag("h3", "Timeline"),
            tag("div", timeline(attempts, view.now), class_="wide") if attempts else tag("p", "No attempt yet."),
            _legend() if attempts else None,
            (tag("h3", "Progress"), tag("div", plot, class_="wide")) if plot else None,
            tag("h3", "Attempts") if attempts else None,
            _table(
                ("#", "Job", "Started", "Ran", "Saved step", "Why it ended"), [_attempt(a, view.now) for a in newest]
            )
            if attempts
            else None,
            tag("h3", "Decisions") if decisions else None,
            _table(
                ("When", "Decision", "Why"),
                [
                    (_when(at), decision_kind(decision).replace("_", " "), safe(sentence))
                    for at, _, decision, sentence in reversed(decisions)
                ],
            )
            if decisions
            else None,
            _excluded(excluded) if excluded else None,
            tag("p", tag("a", "The same as JSON", href=f"/api/v1/chains/{quote(chain.name, safe='')}")),
            id="content",
        ),
    )


def problem_page(status: int, sentence: str) -> Markup:
    """What could not be shown, in a sentence."""
    return document(
        f"chainwatch: {status}",
        tag("header", tag("h1", tag("a", "chainwatch", href="/"))),
        tag("main", tag("h2", str(status)), tag("p", sentence), id="content"),
        refresh=None,
    )


def _header(view: View) -> Markup:
    pulse = view.pulse
    if pulse is None:
        health, kind = "no loop runs here", "bad"
    elif not pulse.alive(view.now):
        health, kind = f"the loop has not turned for {_age(view.now - pulse.at)}", "bad"
    elif blind := pulse.blind(view.now):
        health, kind = f"blind: {blind}", "bad"
    elif pulse.paused_by_site:
        health, kind = f"paused by the site: {pulse.paused_by_site}", "bad"
    else:
        health, kind = f"last poll {_age(view.now - pulse.at)} ago", "good"
    return tag(
        "header",
        tag("h1", tag("a", "chainwatch", href="/")),
        tag("p", safe(health), class_=f"health {kind}"),
        tag("p", "read at ", _when(view.now), class_="dim"),
    )


def _row(chain: ChainRecord, now: datetime) -> tuple[Child, ...]:
    link = tag("a", chain.name, href=f"/chain/{quote(chain.name, safe='')}")
    since = _age(now - chain.state_since) if chain.state_since else ""
    mode = tag("span", " observes", class_="dim") if chain.mode.value == "observe" else None
    return (link, (_badge(chain.state), mode), since, _steps(chain), _left(chain), safe(chain.sentence))


def _facts(chain: ChainRecord, now: datetime) -> Markup:
    pairs: list[tuple[str, Child]] = [
        ("Mode", chain.mode.value),
        ("Cluster", chain.cluster),
        ("In this state for", _age(now - chain.state_since) if chain.state_since else ""),
        ("Waits until", _when(chain.wait_until) if chain.wait_until else ""),
        ("Step", _steps(chain)),
        ("Saved step", "" if chain.saved_step is None else str(chain.saved_step)),
        ("Steps per second", f"{speed:.3g}" if (speed := rate(chain)) else ""),
        ("Time left", _left(chain)),
    ]
    shown = [(tag("dt", label), tag("dd", value)) for label, value in pairs if value]
    return tag("dl", *shown)


def _attempt(attempt: Attempt, now: datetime) -> tuple[Child, ...]:
    start, end = attempt.job.start, attempt.ended or attempt.job.end or now
    saved = "" if attempt.saved_after is None else str(attempt.saved_after)
    why: Child = (
        _verdict(attempt.verdict) if attempt.verdict else ("it runs" if attempt.ended is None else "not judged yet")
    )
    return (
        str(attempt.number),
        attempt.job.shown_id,
        _when(start) if start else "pending",
        _age(end - start) if start else "",
        saved,
        why,
    )


def _verdict(verdict: Verdict) -> Child:
    lines = [
        (tag("dt", safe(line.source), f":{line.line}" if line.line else ""), tag("dd", tag("code", safe(line.text))))
        for line in verdict.evidence
    ]
    ruled_out = [tag("li", f"not {reading.cause.value}: ", safe(reading.why)) for reading in verdict.ruled_out]
    weaker = [tag("li", safe(one)) for one in verdict.weaker]
    summary = tag("summary", safe(verdict.sentence), tag("span", f" {verdict.cause.value}", class_="dim"))
    detail = (
        tag("p", safe(verdict.advice)) if verdict.advice else None,
        tag("dl", *lines, class_="evidence") if lines else None,
        tag("ul", *ruled_out) if ruled_out else None,
        (tag("p", "Could not be looked at:"), tag("ul", *weaker)) if weaker else None,
        tag("p", f"confidence {verdict.confidence:.0%}", class_="dim"),
    )
    return tag("details", summary, *detail)


def _alerts(notices: Sequence[Notice], now: datetime) -> Markup:
    items = [
        tag(
            "li",
            tag("strong", safe(n.title)),
            f" for {_age(now - n.created)}",
            tag(
                "span",
                "" if n.delivered else f" not told yet{': ' + safe(n.last_error) if n.last_error else ''}",
                class_="dim",
            ),
            class_=n.severity if n.severity in {"warning", "critical"} else "info",
        )
        for n in notices
    ]
    return tag("section", tag("h2", "Open alerts"), tag("ul", *items), class_="alerts")


def _excluded(nodes: Sequence[ExcludedNode]) -> Markup:
    rows = [(n.node, safe(n.why), n.chain or "every chain", _when(n.until)) for n in nodes]
    return tag("section", tag("h3", "Nodes kept away from"), _table(("Node", "Why", "Chain", "Until"), rows))


def _table(heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    body = tag("tbody", *(tag("tr", *map(_cell, heads, row)) for row in rows))
    return tag("div", tag("table", head, body), class_="wide", tabindex=0, role="region", aria_label=heads[0])


def _cell(head: str, cell: Child) -> Markup:
    """One cell; on a phone its label stands before it, and an empty one is left out."""
    return tag("td", cell, data_label=head, class_="none" if cell in ("", None) else None)


def _legend() -> Markup:
    return tag("ul", *(tag("li", tag("span", class_=f"key {one}"), one) for one in LEGEND), class_="legend")


def _badge(state: ChainState) -> Markup:
    return tag("span", state.value, class_=f"badge {state.value}")


def _steps(chain: ChainRecord) -> str:
    if chain.step is None:
        return ""
    return f"{chain.step:,}" + (f" of {chain.target:,} ({chain.step / chain.target:.0%})" if chain.target else "")


def _left(chain: ChainRecord) -> str:
    seconds = eta_seconds(chain)
    return "" if seconds is None else _age(timedelta(seconds=min(seconds, 10**9)))


def _when(moment: datetime) -> Markup:
    return tag("time", f"{moment:%d %b %H:%M} UTC", datetime=moment.isoformat())


def _age(span: timedelta) -> str:
    seconds = max(0, int(span.total_seconds()))
    for size in (86400, 3600, 60):
        if seconds >= 2 * size:
            seconds -= seconds % (size // (24 if size == 86400 else 60))
            break
    return show_duration(timedelta(seconds=seconds))
