"""The pages: all chains at a glance, and one chain with its history. Pure; nothing needs JavaScript."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from chainwatch.model.chain import Attempt, ChainState, Decision, Desired, ExcludedNode
from chainwatch.model.durations import age, span
from chainwatch.store.codec import decision_kind
from chainwatch.store.records import ChainRecord, Notice, Point, Save
from chainwatch.store.standing import Standing, standing
from chainwatch.web import buttons, parts, plot
from chainwatch.web.api import safe
from chainwatch.web.html import Child, Markup, document, tag
from chainwatch.web.scale import Scale
from chainwatch.web.timeline import legend, timeline
from chainwatch.web.view import View
from chainwatch.web.words import badge, bar, left, path_of, steps, table, when

_FIRST = {ChainState.STOPPED: 0, ChainState.RESTING: 1, ChainState.RECOVERING: 2, ChainState.WAITING: 3}
_HEADS = ("Chain", "State", "Since", "Progress", "Left", "Decided, and why")


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of one chain."""

    attempts: Sequence[Attempt] = ()
    decisions: Sequence[tuple[datetime, int | None, Decision, str]] = ()
    excluded: Sequence[ExcludedNode] = ()
    active: Sequence[Notice] = ()
    points: Sequence[Point] = ()
    saves: Sequence[Save] = ()


def overview(view: View, active: Sequence[Notice]) -> Markup:
    """All chains: what needs a person first."""
    chains = sorted(view.chains, key=lambda c: (_FIRST.get(c.state, 5), c.state is ChainState.DONE, c.name))
    return document(
        f"chainwatch: {len(chains)} chain{'' if len(chains) == 1 else 's'}",
        _header(view),
        tag(
            "main",
            parts.alerts([n for n in active if n.severity != "info"], view.now),
            tag("h2", "Chains"),
            _counts(chains) if chains else None,
            table(_HEADS, [_row(chain, view.now) for chain in chains], "Chains")
            if chains
            else tag("p", "No chain is registered yet. `chainwatch submit` and `chainwatch sbatch` begin one."),
            parts.nodes(view.excluded),
            id="content",
        ),
    )


def chain_page(view: View, chain: ChainRecord, past: Past, *, token: str | None = None, fresh: bool = False) -> Markup:
    """One chain: timeline, progress, verdicts, decisions, nodes. `token`: the buttons are on. `fresh`: it reloads itself,
    which closes what a reader has opened."""
    here = path_of(chain.name)
    again = tag("a", "stop reloading", href=here) if fresh else tag("a", "reload every minute", href=f"{here}?fresh=1")
    return document(
        f"{chain.name}: {chain.state.value}",
        _header(view, again),
        tag(
            "main",
            tag("p", tag("a", "← All chains", href="/"), class_="back"),
            tag("h2", chain.name, " ", badge(chain.state)),
            tag("p", safe(chain.sentence), class_="sentence"),
            bar(chain),
            _facts(chain, view.now),
            buttons.forms(chain, token) if token and not chain.released else None,
            parts.alerts([n for n in past.active if n.severity != "info"], view.now),
            *_pictures(chain, past, view.now),
            (tag("h3", "Attempts"), parts.attempts(past.attempts, view.now)) if past.attempts else None,
            (tag("h3", "Decisions"), _decisions(past.decisions)) if past.decisions else None,
            parts.nodes(past.excluded),
            tag("p", tag("a", "The same as JSON", href=f"/api/v1/chains/{quote(chain.name, safe='')}")),
            id="content",
        ),
        refresh=60 if fresh else None,
    )


def problem_page(status: int, sentence: str) -> Markup:
    """What could not be shown or done, in a sentence."""
    return document(
        f"chainwatch: {status}",
        tag("header", tag("h1", tag("a", "chainwatch", href="/"))),
        tag(
            "main", tag("h2", str(status)), tag("p", sentence), tag("p", tag("a", "All chains", href="/")), id="content"
        ),
        refresh=None,
    )


def _header(view: View, *more: Child) -> Markup:
    pulse = view.pulse
    if pulse is None:
        health, kind = "no loop runs here", "bad"
    elif not pulse.alive(view.now):
        health, kind = f"the loop has not turned for {age(view.now - pulse.at)}", "bad"
    elif blind := pulse.blind(view.now):
        health, kind = f"blind: {blind}", "bad"
    elif pulse.paused_by_site:
        health, kind = f"paused by the site: {pulse.paused_by_site}", "bad"
    else:
        health, kind = f"last poll {age(view.now - pulse.at)} ago", "good"
    if pulse is not None and pulse.observing:
        health += " (only observing)"
    return tag(
        "header",
        tag("h1", tag("a", "chainwatch", href="/")),
        tag("p", safe(health), class_=f"health {kind}"),
        tag("p", "read at ", when(view.now), *((" · ", one) for one in more), class_="dim"),
    )


def _counts(chains: Sequence[ChainRecord]) -> Markup:
    states = Counter(chain.state for chain in chains)
    order = sorted(states, key=lambda state: (_FIRST.get(state, 5), state is ChainState.DONE, state.value))
    items = [tag("li", tag("strong", str(states[state])), " ", badge(state)) for state in order]
    return tag("ul", *items, class_="counts")


def _row(chain: ChainRecord, now: datetime) -> tuple[Child, ...]:
    link = tag("a", chain.name, href=path_of(chain.name))
    since = age(now - chain.state_since) if chain.state_since else ""
    said = " left alone" if chain.released else " observes" if chain.mode.value == "observe" else ""
    mode = tag("span", said, class_="dim") if said else None
    progress: Child = (tag("span", steps(chain), class_="steps"), bar(chain)) if chain.step is not None else ""
    return (link, (badge(chain.state), mode), since, progress, left(chain, now), safe(chain.sentence))


def _facts(chain: ChainRecord, now: datetime) -> Markup:
    stands = standing(chain, now)
    loss, speed = stands.loss, stands.steps_per_second
    wants = "" if chain.desired is Desired.RUN else f"{chain.desired.value}" + _because(chain.desired_why)
    pairs: list[tuple[str, Child]] = [
        ("Mode", chain.mode.value),
        ("Configuration", "no longer in it: left alone" if chain.released else ""),
        ("Asked for", wants),
        ("In this state for", age(now - chain.state_since) if chain.state_since else ""),
        ("Waits until", when(chain.wait_until) if chain.wait_until else ""),
        ("Step", steps(chain)),
        ("Saved step", "" if chain.saved_step is None else f"{chain.saved_step:,}"),
        ("Not saved yet", _at_risk(stands)),
        ("Speed", f"{speed:.3g} steps/s" if speed else ""),
        ("Time left", left(chain, now)),
        ("Time left, with interruptions", span(stands.eta_overall_seconds)),
        ("Last step", f"{age(now - stands.step_at)} ago" if stands.step_at else ""),
        ("Tokens", "" if stands.tokens is None else f"{stands.tokens:,}"),
        ("Loss", f"{loss:.4g}" if isinstance(loss, int | float) else str(loss or "")),
        ("Phase", safe(stands.phase)),
        ("Cluster", chain.cluster),
    ]
    shown = [tag("div", tag("dt", label), tag("dd", value)) for label, value in pairs if value]
    return tag("dl", *shown, class_="facts")


def _at_risk(stands: Standing) -> str:
    """The work that would be lost now."""
    if not stands.at_risk_steps:
        return ""
    took = f", {span(stands.at_risk_seconds)} of work" if stands.at_risk_seconds else ""
    return f"{stands.at_risk_steps:,} steps{took}"


def _because(why: str) -> str:
    return f" ({safe(why)})" if why else ""


def _pictures(chain: ChainRecord, past: Past, now: datetime) -> list[Child]:
    if not past.attempts:
        return [tag("h3", "Timeline"), tag("p", "No attempt yet.")]
    ends = [a.ended or now for a in past.attempts]
    live = any(a.ended is None for a in past.attempts) or not chain.state.quiet
    scale = Scale.over(min(a.job.attempt.submitted for a in past.attempts), now if live else max(ends))
    silent = _silent_since(chain, past)
    shown = timeline(past.attempts, scale, now, points=past.points, saves=past.saves, silent_since=silent)
    out: list[Child] = [
        tag("h3", "Timeline"),
        _wide(shown, "Timeline"),
        legend(past.attempts, past.saves, silent),
    ]
    if (drawn := plot.steps(past.attempts, past.points, past.saves, chain.target, scale)) is not None:
        keys = (("line reached", "steps reached"), ("kept", "intact save"), ("lost", "work lost at an end"))
        out += [tag("h3", "Steps"), _wide(drawn, "Steps"), _key(keys)]
    if (drawn := plot.loss(past.attempts, past.points, scale)) is not None:
        out += [tag("h3", "Loss"), _wide(drawn, "Loss")]
    return out


def _wide(picture: Markup, label: str) -> Markup:
    return tag("div", picture, class_="wide picture", tabindex=0, role="region", aria_label=label)


def _key(words: Sequence[tuple[str, str]]) -> Markup:
    return tag("ul", *(tag("li", tag("span", class_=f"key {kind}"), said) for kind, said in words), class_="legend")


def _silent_since(chain: ChainRecord, past: Past) -> datetime | None:
    """Since when the running job seems to hang, if it was told that it does."""
    if "hang" not in chain.facts:
        return None
    told = chain.facts.get("step_at")
    if isinstance(told, str):
        return datetime.fromisoformat(told)
    return past.points[-1].at if past.points else None


def _decisions(decisions: Sequence[tuple[datetime, int | None, Decision, str]]) -> Markup:
    rows = [
        (when(at), "" if number is None else str(number), decision_kind(decision).replace("_", " "), safe(sentence))
        for at, number, decision, sentence in reversed(decisions)
    ]
    return table(("When", "After attempt", "Decision", "Why"), rows, "Decisions")
