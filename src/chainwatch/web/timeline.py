"""The timeline of a chain and its progress plot, as inline SVG. Pure.

Colour is never alone: each bar has a title and the table below says the same in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.web.html import Child, Markup, tag

WIDTH, HEIGHT = 1000, 96
_TOP, _BAR = 24, 30
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
LEGEND = ("running", "done", "preempted", "machine", "checkpoint", "hang", "program", "cancelled", "unknown", "waiting")


def family(attempt: Attempt) -> str:
    """The colour of an attempt: its cause, in few groups that an eye can tell apart."""
    if attempt.verdict is None:
        return "running" if attempt.ended is None else "unknown"
    return "hang" if attempt.verdict.outcome is Outcome.HUNG else _FAMILY[attempt.verdict.cause]


def timeline(attempts: Sequence[Attempt], now: datetime) -> Markup | None:
    """Attempts as bars, queue waits as thin ones before them, newer intact checkpoints as ticks."""
    if not attempts:
        return None
    begin = min(attempt.job.attempt.submitted for attempt in attempts)
    span = max(now - begin, timedelta(minutes=1))

    def x(moment: datetime) -> float:
        return round(min(1.0, max(0.0, (moment - begin) / span)) * WIDTH, 1)

    shapes: list[Child] = []
    for attempt in attempts:
        shapes += _shapes(attempt, x, now)
    return tag(
        "svg",
        tag("title", f"Timeline of {len(attempts)} attempts"),
        *shapes,
        *_axis(begin, begin + span),
        class_="timeline",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )


def _shapes(attempt: Attempt, x: Callable[[datetime], float], now: datetime) -> list[Child]:
    job, name = attempt.job, f"attempt {attempt.number}, job {attempt.job.shown_id}"
    end = attempt.ended or job.end or now
    out: list[Child] = []
    waited_until = job.start or end
    if waited_until > job.attempt.submitted:
        left = x(job.attempt.submitted)
        title = tag("title", f"{name} waited in the queue from {job.attempt.submitted:%d %b %H:%M}")
        width = max(0.5, x(waited_until) - left)
        out.append(tag("rect", title, class_="waiting", x=left, y=_TOP + 11, width=width, height=8))
    if job.start is not None:
        left, kind = x(job.start), family(attempt)
        said = attempt.verdict.sentence if attempt.verdict else "it runs" if attempt.ended is None else "not judged yet"
        title = tag("title", f"{name}, {job.start:%d %b %H:%M} to {end:%d %b %H:%M}: {said}")
        out.append(tag("rect", title, class_=kind, x=left, y=_TOP, width=max(2.0, x(end) - left), height=_BAR, rx=2))
        if kind == "hang":
            out.append(tag("text", "hang", class_="mark", x=left + 2, y=_TOP - 4))
    if attempt.saved_progress:
        title = tag("title", f"{name} left an intact checkpoint of step {attempt.saved_after}")
        out.append(tag("rect", title, class_="tick", x=max(0.0, x(end) - 1), y=_TOP - 7, width=2, height=_BAR + 14))
    return out


def _axis(begin: datetime, end: datetime) -> list[Child]:
    style = (
        "%H:%M" if end - begin < timedelta(days=1) else "%d %b %H:%M" if end - begin < timedelta(days=10) else "%d %b"
    )
    marks: list[Child] = []
    for part, anchor in ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")):
        moment = begin + (end - begin) * part
        words = moment.strftime(style)
        marks.append(tag("text", words, class_="axis", x=part * WIDTH, y=HEIGHT - 8, text_anchor=anchor))
    return marks


def progress_plot(attempts: Sequence[Attempt], target: int | None, now: datetime) -> Markup | None:
    """Steps reached and steps saved over time; the gap between the lines is what an end costs."""
    points = [(a.ended or now, a.step_after, a.saved_after) for a in attempts if a.step_after is not None]
    if len(points) < 2:
        return None
    begin, end = attempts[0].job.attempt.submitted, max(p[0] for p in points)
    most = max([p[1] or 0 for p in points] + ([target] if target else []) + [1])
    span = max(end - begin, timedelta(minutes=1))

    def at(moment: datetime, step: int) -> str:
        return f"{(moment - begin) / span * WIDTH:.1f},{190 - step / most * 170:.1f}"

    reached = " ".join(at(when, step or 0) for when, step, _ in points)
    saved = " ".join(at(when, step) for when, _, step in points if step is not None)
    goal = 190 - (target or 0) / most * 170
    return tag(
        "svg",
        tag("title", "Steps reached and saved over time"),
        tag("line", tag("title", f"target {target}"), class_="goal", x1=0, x2=WIDTH, y1=goal, y2=goal)
        if target
        else None,
        tag("polyline", tag("title", "steps reached"), class_="reached", points=reached),
        tag("polyline", tag("title", "steps saved"), class_="saved", points=saved),
        tag("text", f"step {most}", class_="axis", x=2, y=16),
        tag("text", "0", class_="axis", x=2, y=188),
        class_="plot",
        viewBox=f"0 0 {WIDTH} 200",
        role="img",
    )
