"""The timeline of a chain as inline SVG: attempts, queue waits, silences and saves. Pure.

Colour is never alone: each shape has a title, a hang is hatched, a damaged save is a cross, and the table below says the
same in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Status
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.store.records import Point, Save
from chainwatch.web.html import Child, Markup, tag
from chainwatch.web.scale import WIDTH, Scale, thinned

HEIGHT = 104
_TOP, _BAR, _SAVES = 22, 30, 66
_FAMILY = {
    Cause.COMPLETED: "done",
    Cause.PREEMPTION: "preempted",
    Cause.TIME_LIMIT: "preempted",
    Cause.CANCELLED_BY_USER: "cancelled",
    Cause.CANCELLED_BY_OTHER: "cancelled",
    Cause.HARDWARE_GPU: "machine",
    Cause.HARDWARE_NODE: "machine",
    Cause.NETWORK_FABRIC: "machine",
    Cause.STORAGE: "machine",
    Cause.TRANSIENT_SERVICE: "machine",
    Cause.RENDEZVOUS: "machine",
    Cause.CHECKPOINT_CORRUPT: "checkpoint",
    Cause.HANG: "hang",
    Cause.OOM_GPU: "program",
    Cause.OOM_HOST: "program",
    Cause.NUMERIC: "program",
    Cause.ENVIRONMENT: "program",
    Cause.USER_CONFIG: "program",
    Cause.USER_CODE: "program",
    Cause.UNKNOWN: "unknown",
}
WORDS = {
    "waiting": "waits in the queue",
    "running": "runs",
    "done": "done",
    "preempted": "preempted or out of time",
    "machine": "machine, network or storage",
    "checkpoint": "damaged checkpoint",
    "program": "program",
    "cancelled": "cancelled",
    "unknown": "not known",
    "hang": "silence (a hang)",
    "saved": "intact save",
    "torn": "damaged or unfinished save",
}


def family(attempt: Attempt) -> str:
    """The colour of an attempt: its cause, in few groups that an eye can tell apart."""
    if attempt.verdict is None:
        return "running" if attempt.ended is None else "unknown"
    return "hang" if attempt.verdict.outcome is Outcome.HUNG else _FAMILY[attempt.verdict.cause]


def timeline(
    attempts: Sequence[Attempt],
    scale: Scale,
    now: datetime,
    *,
    points: Sequence[Point] = (),
    saves: Sequence[Save] = (),
    silent_since: datetime | None = None,
) -> Markup:
    """Attempts as bars, queue waits as thin ones before them, silences hatched, saves as ticks below.

    `silent_since`: since when the running attempt gives no sign of life.
    """
    shapes: list[Child] = []
    for attempt in attempts:
        shapes += _queue(attempt, scale, now)
        shapes += _bar(attempt, scale, now, _silence(attempt, points, silent_since))
    return tag(
        "svg",
        tag("title", f"Timeline of {len(attempts)} attempts"),
        tag("defs", _HATCH),
        *scale.grid(_TOP - 10, HEIGHT - 22),
        tag("text", "jobs", class_="axis", x=4, y=_TOP + 20),
        tag("text", "saves", class_="axis", x=4, y=_SAVES + 10) if saves else None,
        *shapes,
        *_saves(saves, scale),
        *scale.labels(HEIGHT - 6),
        class_="timeline",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )


def legend(attempts: Sequence[Attempt], saves: Sequence[Save], silent_since: datetime | None = None) -> Markup:
    """What the colours mean, of those that are there."""
    kinds = {family(attempt) for attempt in attempts if attempt.job.start is not None}
    kinds |= {"waiting"} | {"saved" if save.status is Status.INTACT else "torn" for save in saves}
    kinds |= {"hang"} if silent_since else set()
    items = [tag("li", tag("span", class_=f"key {kind}"), WORDS[kind]) for kind in WORDS if kind in kinds]
    return tag("ul", *items, class_="legend")


def _queue(attempt: Attempt, scale: Scale, now: datetime) -> list[Child]:
    job = attempt.job
    until = job.start or attempt.ended or job.end or now
    if until <= job.attempt.submitted:
        return []
    left = scale.x(job.attempt.submitted)
    hours = (until - job.attempt.submitted).total_seconds() / 3600
    title = tag("title", f"{_name(attempt)} waited in the queue for {hours:.1f} h from {_at(job.attempt.submitted)}")
    width = round(max(1.0, scale.x(until) - left), 1)
    return [tag("rect", title, class_="waiting", x=left, y=_TOP + 11, width=width, height=8)]


def _bar(attempt: Attempt, scale: Scale, now: datetime, silence: datetime | None) -> list[Child]:
    job = attempt.job
    if job.start is None:
        return []
    end, kind = attempt.ended or job.end or now, family(attempt)
    left, right = scale.x(job.start), scale.x(end)
    said = attempt.verdict.sentence if attempt.verdict else "it runs" if attempt.ended is None else "not judged yet"
    title = tag("title", f"{_name(attempt)}, {_at(job.start)} to {_at(end)}: {said}")
    width = round(max(2.0, right - left), 1)
    out: list[Child] = [tag("rect", title, class_=f"bar {kind}", x=left, y=_TOP, width=width, height=_BAR, rx=2)]
    if silence is not None and silence < end:
        begin = scale.x(silence)
        title = tag("title", f"{_name(attempt)} was silent from {_at(silence)} to {_at(end)}")
        shape = {"x": begin, "y": _TOP, "width": round(max(3.0, right - begin), 1), "height": _BAR}
        out.append(tag("rect", class_="silence", **shape))
        out.append(tag("rect", title, fill="url(#hatch)", **shape))
        out.append(tag("text", "silent", class_="mark", x=begin, y=_TOP - 4))
    if width >= 18:
        out.append(tag("text", str(attempt.number), class_="number", x=left + 5, y=_TOP + 20))
    return out


def _silence(attempt: Attempt, points: Sequence[Point], silent_since: datetime | None) -> datetime | None:
    """Since when an attempt that hung (or seems to) gave no sign of life: after its last new step."""
    start = attempt.job.start
    if start is None:
        return None
    if attempt.ended is None and attempt.verdict is None:
        return silent_since
    if family(attempt) != "hang":
        return None
    inside = [p for p in points if start <= p.at and (attempt.ended is None or p.at <= attempt.ended)]
    best, since = -1, start
    for point in inside:
        if point.step > best:
            best, since = point.step, point.at
    return since


def _saves(saves: Sequence[Save], scale: Scale) -> list[Child]:
    out: list[Child] = []
    whole = [save for save in saves if save.status is Status.INTACT and scale.begin <= save.at <= scale.end]
    torn = [save for save in saves if save.status is not Status.INTACT and scale.begin <= save.at <= scale.end]
    for number in thinned([save.at for save in whole], scale):
        save = whole[number]
        title = tag("title", f"{_step(save)} saved, intact, {_at(save.at)}")
        out.append(tag("rect", title, class_="saved", x=scale.x(save.at) - 0.75, y=_SAVES - 6, width=1.5, height=12))
    for save in torn[-50:]:
        x, y = scale.x(save.at), _SAVES + 6
        title = tag("title", f"{_step(save)} is {save.status.value.replace('_', ' ')}, {_at(save.at)}")
        cross = f"M{x - 4} {y - 4}L{x + 4} {y + 4}M{x - 4} {y + 4}L{x + 4} {y - 4}"
        out.append(tag("path", title, class_="torn", d=cross))
    return out


_HATCH = tag(
    "pattern",
    tag("path", d="M0 8L8 0", class_="hatch"),
    id="hatch",
    width=8,
    height=8,
    patternUnits="userSpaceOnUse",
)


def _step(save: Save) -> str:
    return "a checkpoint" if save.step is None else f"step {save.step:,}"


def _name(attempt: Attempt) -> str:
    return f"attempt {attempt.number}, job {attempt.job.shown_id}"


def _at(moment: datetime) -> str:
    return f"{moment:%d %b %H:%M}"
