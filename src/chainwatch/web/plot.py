"""Steps and loss over time as inline SVG, on the time axis of the timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Status
from chainwatch.model.verdict import Outcome
from chainwatch.store.records import Point, Save
from chainwatch.web.html import Child, Markup, tag
from chainwatch.web.scale import LEFT, RIGHT, WIDTH, Scale, rounded, short, thinned

_TOP, _STEPS, _LOSS = 12, 190, 120
Stretch = list[tuple[datetime, float]]
Height = Callable[[float], float]


def steps(
    attempts: Sequence[Attempt], points: Sequence[Point], saves: Sequence[Save], target: int | None, scale: Scale
) -> Markup | None:
    """Steps reached and saved; a red bar at an end is work that no intact checkpoint holds. None: nothing to draw."""
    runs = list(_runs(attempts, points, scale))
    whole = [s for s in saves if s.status is Status.INTACT and s.step is not None and scale.begin <= s.at <= scale.end]
    if sum(len(run) for run in runs) + len(whole) < 2:
        return None
    most = max([value for run in runs for _, value in run] + [s.step or 0 for s in whole] + [target or 0, 1])
    top, apart = rounded(most)
    bottom = _TOP + _STEPS

    def y(step: float) -> float:
        return round(bottom - step / top * _STEPS, 1)

    shapes: list[Child] = [*_lines(top, apart, y)]
    if target:
        title = tag("title", f"final step {target:,}")
        shapes.append(tag("line", title, class_="goal", x1=LEFT, x2=WIDTH - RIGHT, y1=y(target), y2=y(target)))
        shapes.append(tag("text", "final step", class_="axis", x=LEFT + 4, y=y(target) + 14))
    for run in runs:
        shapes.append(_line(run, scale, y, "reached", "steps reached"))
    for attempt in attempts:
        shapes += _lost(attempt, scale, y)
    for number in thinned([s.at for s in whole], scale, 5):
        save = whole[number]
        title = tag("title", f"step {save.step:,} saved {save.at:%d %b %H:%M}")
        shapes.append(tag("circle", title, class_="kept", cx=scale.x(save.at), cy=y(save.step or 0), r=2.5))
    return _plot("Training steps reached and saved over time", "steps", bottom, scale, shapes)


def loss(attempts: Sequence[Attempt], points: Sequence[Point], scale: Scale) -> Markup | None:
    """The loss; a spike is cut off at the top rather than flatten the rest. None: too little is known."""
    known = [p for p in points if p.loss is not None and scale.begin <= p.at <= scale.end]
    if len(known) < 2:
        return None
    values = sorted(p.loss for p in known if p.loss is not None)
    low, high = values[0], values[min(len(values) - 1, int(len(values) * 0.98))]
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high = (0.0 if low >= 0 and low - room < 0 else low - room), high + room
    bottom = _TOP + _LOSS

    def y(value: float) -> float:
        return round(bottom - (min(value, high) - low) / (high - low) * _LOSS, 1)

    shapes: list[Child] = []
    for part in (0.0, 0.5, 1.0):
        value = low + (high - low) * part
        shapes.append(tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value)))
        shapes.append(tag("text", short(value), class_="axis", x=LEFT - 6, y=y(value) + 4, text_anchor="end"))
    for run in _apart(attempts, [(p.at, p.loss) for p in known if p.loss is not None]):
        shapes.append(_line(run, scale, y, "loss", "loss"))
    return _plot("Loss over time", "loss", bottom, scale, shapes)


def _plot(title: str, name: str, bottom: float, scale: Scale, shapes: Sequence[Child]) -> Markup:
    return tag(
        "svg",
        tag("title", title),
        *scale.grid(_TOP, bottom),
        *shapes,
        *scale.labels(bottom + 18),
        class_=f"plot {name}",
        viewBox=f"0 0 {WIDTH} {bottom + 24:g}",
        role="img",
    )


def _lines(top: float, apart: float, y: Height) -> Iterator[Child]:
    value = 0.0
    while value <= top * 1.001:
        yield tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value))
        yield tag("text", short(value), class_="axis", x=LEFT - 6, y=y(value) + 4, text_anchor="end")
        value += apart


def _line(run: Stretch, scale: Scale, y: Height, kind: str, said: str) -> Markup:
    if len(run) == 1:
        [(at, value)] = run
        return tag("circle", tag("title", said), class_=f"dot {kind}", cx=scale.x(at), cy=y(value), r=2)
    places = " ".join(f"{scale.x(at)},{y(value)}" for at, value in run)
    return tag("polyline", tag("title", said), class_=kind, points=places)


def _runs(attempts: Sequence[Attempt], points: Sequence[Point], scale: Scale) -> Iterator[Stretch]:
    """One stretch for each attempt: what was seen while it ran, and where it ended."""
    seen: Stretch = [(p.at, float(p.step)) for p in points if scale.begin <= p.at <= scale.end]
    seen += [(a.ended, float(a.step_after)) for a in attempts if a.ended and a.step_after is not None and a.job.start]
    return _apart(attempts, sorted(seen))


def _apart(attempts: Sequence[Attempt], seen: Stretch) -> Iterator[Stretch]:
    """The values of each attempt by themselves: between two attempts nothing was reached."""
    for attempt in attempts:
        start, end = attempt.job.start, attempt.ended
        if start is not None:
            run = [(at, value) for at, value in seen if start <= at and (end is None or at <= end)]
            if run:
                yield run


def _lost(attempt: Attempt, scale: Scale, y: Height) -> list[Child]:
    known = (attempt.saved_after, attempt.saved_before, attempt.step_before, 0)
    reached, saved = attempt.step_after, next(step for step in known if step is not None)
    done = attempt.verdict is not None and attempt.verdict.outcome is Outcome.DONE
    if done or attempt.ended is None or reached is None or reached <= saved or attempt.job.start is None:
        return []
    title = tag("title", f"attempt {attempt.number} lost {reached - saved:,} steps: {saved:,} was saved of {reached:,}")
    x = scale.x(attempt.ended)
    height = round(max(1.5, y(saved) - y(reached)), 1)
    return [tag("rect", title, class_="lost", x=x - 1.5, y=y(reached), width=3, height=height)]
