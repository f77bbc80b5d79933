"""What a program did after it said something: whether it went on, and what went well."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from chainwatch.evidence.logs.counting import counting
from chainwatch.evidence.logs.spans import merged
from chainwatch.evidence.logs.tone import is_well
from chainwatch.evidence.progress import ProgressReader
from chainwatch.model.verdict import Cause, Finding

ENOUGH_STEPS = 12
_SURVIVAL = 1 << 16
"""Bytes below a finding in which newer training steps are counted."""
_COUNTING = 1 << 13
"""Bytes below a finding in which lines that count are looked for, where no profile reads a step."""
_WORTH_COUNTING = 30


def judged(
    progress: ProgressReader, text: bytes, start: int, fresh: list[tuple[Finding, int, int]]
) -> Iterator[Finding]:
    """Findings (each with the span of its line), with what the program did after them; in the order of the text."""
    if not fresh:
        return
    fresh.sort(key=lambda item: item[1])
    first = fresh[0][1]
    marks = [
        mark
        for low, high in merged((end, min(len(text), end + _SURVIVAL)) for _, _, end in fresh)
        for mark in progress.lines(text, low, high)
    ]
    places = [mark.position for mark in marks]
    ends = {text[begin:end] for finding, begin, end in fresh if finding.cause is Cause.COMPLETED}
    began = next(progress.lines(text, max(start, first - _SURVIVAL), first), None) is not None
    for finding, begin, end in fresh:
        after = {(m.epoch, m.step) for m in marks[bisect_left(places, end) :][: 8 * ENOUGH_STEPS]}
        before = began or bisect_left(places, begin) > 0
        survived, well = len(after), 0
        if not survived and not finding.effect and finding.specificity >= _WORTH_COUNTING:
            below = text[end + 1 : end + _COUNTING]
            survived = len(counting(below))
            lines = below.replace(b"\r", b"\n").split(b"\n")
            well = sum(is_well(line) and line not in ends for line in lines)
        yield replace(finding, survived=min(ENOUGH_STEPS, survived), well=well, startup=not before)
