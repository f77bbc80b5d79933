"""The time axis that the timeline and the plots of one page share, so that they can be read above each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chainwatch.web.html import Child, tag

WIDTH = 1000
LEFT, RIGHT = 52, 12
"""Room for the numbers of a plot, and for half a label."""
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday: weeks begin there
_APART = tuple(
    timedelta(minutes=m)
    for m in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 40320, 80640, 161280, 483840)
)


@dataclass(frozen=True, slots=True)
class Scale:
    """From a moment to a place between left and right."""

    begin: datetime
    end: datetime

    @classmethod
    def over(cls, begin: datetime, end: datetime) -> Scale:
        """At least a minute wide."""
        return cls(begin, max(end, begin + timedelta(minutes=1)))

    def x(self, moment: datetime) -> float:
        """The place of a moment; what lies outside is drawn at the edge."""
        part = min(1.0, max(0.0, (moment - self.begin) / (self.end - self.begin)))
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self, most: int = 7) -> list[tuple[datetime, str]]:
        """Round moments with their words, at most so many."""
        span = self.end - self.begin
        apart = next(
            (one for one in _APART if span / one <= most), _APART[-1] * max(1, -(-span // (_APART[-1] * most)))
        )
        moment = _EPOCH + ((self.begin - _EPOCH) // apart + 1) * apart
        out: list[tuple[datetime, str]] = []
        while moment <= self.end:
            midnight = moment.hour == moment.minute == 0
            words = f"{moment:%d %b}" if apart >= timedelta(days=1) or midnight else f"{moment:%H:%M}"
            out.append((moment, words))
            moment += apart
        return out

    def grid(self, top: float, bottom: float) -> list[Child]:
        """A thin line at each tick."""
        return [tag("line", class_="grid", x1=self.x(at), x2=self.x(at), y1=top, y2=bottom) for at, _ in self.ticks()]

    def labels(self, y: float) -> list[Child]:
        """The words of the ticks, and which clock they are of."""
        words = [
            tag("text", said, class_="axis", x=self.x(at), y=y, text_anchor="middle")
            for at, said in self.ticks()
            if LEFT + 20 <= self.x(at) <= WIDTH - 20
        ]
        return [tag("text", "UTC", class_="axis", x=4, y=y), *words]


def rounded(most: float) -> tuple[float, float]:
    """A round number of at least `most`, and a round distance for two to five lines below it."""
    if most <= 0:
        return 1.0, 1.0
    power = 10.0
    while power > most:
        power /= 10
    while power * 10 <= most:
        power *= 10
    for factor in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if factor * power >= most:
            top = factor * power
            parts = {1.0: 4, 1.2: 4, 1.5: 3, 2.0: 4, 2.5: 5, 3.0: 3, 4.0: 4, 5.0: 5, 6.0: 3, 8.0: 4, 10.0: 4}
            return top, top / parts[float(factor)]
    return 10 * power, 2.5 * power


def short(number: float) -> str:
    """`1.2k`, `35M`: a number for the edge of a plot."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def thinned(moments: Sequence[datetime], scale: Scale, apart: float = 2.0) -> list[int]:
    """Which of the moments to draw, so that two are never nearer than `apart`: the later one of a crowd."""
    out: list[int] = []
    last = float("inf")
    for number in range(len(moments) - 1, -1, -1):
        here = scale.x(moments[number])
        if last - here >= apart:
            out.append(number)
            last = here
    return out[::-1]
