"""Reading the logs of one attempt: what they say about its end.

A log may be a gigabyte, hold several attempts, several ranks torn into each other, colours, progress bars that end in
carriage returns, and lines of a megabyte. The end of the file is read, the head, and backwards from the end as long as
nothing found so far explains the end; every line that may carry a signature is cleaned and matched.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain

from chainwatch.evidence import epochs
from chainwatch.evidence.counting import counting
from chainwatch.evidence.logs_attempt import attempt_start
from chainwatch.evidence.logs_file import LogReader, Unreadable, Window, has_control
from chainwatch.evidence.logs_text import CleanLine, aware, clean, stamp, unstamped
from chainwatch.evidence.logs_tone import is_handled, is_information, is_shown, is_warning, is_well
from chainwatch.evidence.logs_traceback import as_exception, is_head, traceback_end, traceback_start
from chainwatch.evidence.progress import ProgressReader, Reached
from chainwatch.model.plain_file import may_exist
from chainwatch.model.verdict import Cause, Finding, Line, LogEvidence, Retry
from chainwatch.signatures import Hit, Matcher, Signature, builtin_matcher

_FILE_ORDER = 44
"""Orders of findings are `file number << 44 | byte offset`."""
_LONGEST = 8192
"""A line is quoted up to this many bytes."""
_MATCHED = 1 << 15
"""Of a longer line its first and last half of this many bytes are matched."""
_ENOUGH_STEPS = 12
_SURVIVAL = 1 << 16
"""Bytes below a finding in which newer training steps are counted."""
_COUNTING = 1 << 13
"""Bytes below a finding in which lines that count are looked for, where no profile reads a step."""
_WORTH_COUNTING = 30
_ALIKE = 24
"""So many lines of one piece that differ only in digits are looked at, and the last one."""
_SHAPE = bytes.maketrans(b"\r", b"\n")
_SHAPES = 20_000
"""Kinds of lines that are remembered while one piece is read."""
_KEPT = 8
"""Findings of one signature and file that become evidence."""
_TAIL_LINES = 40
_WARNED = 5
"""Specificity that is left of a failure in a line that the program calls a warning: it is a cause only for want of one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a log is read, in bytes."""

    whole: int = 6 << 20
    """A part up to this size is read from its beginning to its end."""
    head: int = 1 << 18
    tail: int = 1 << 20
    search: int = 24 << 20
    """How far back from the end of a larger part the cause is looked for, while nothing explains the end."""
    context: int = 1 << 15
    """Bytes above a line in which its traceback is looked for."""
    count: int = 64 << 20
    """Line numbers are given where at most this much lies unread before them."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log of the attempt."""

    path: str
    start: int = 0
    """Byte offset at which this attempt began to write, where it is known; 0 otherwise."""


@dataclass
class _Found:
    """What one file gave, while it is being read."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    signalled: list[tuple[int, Line]] = field(default_factory=list)
    tail: tuple[Line, ...] = ()
    newest: Reached | None = None
    bytes_read: int = 0
    unread: int = 0

    def decisive(self) -> bool:
        """Something here explains an end by itself, so that older parts need not be read."""
        return any(
            finding.specificity >= 50 and not finding.effect and finding.survived < _ENOUGH_STEPS
            for findings in self.findings.values()
            for finding in findings
        )


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
    found: list[_Found] = []
    for number, file in enumerate(files):
        scan = _Scan(number, file, matcher, progress, since, frozenset(nodes), limits)
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


class _Scan:
    """Reads one file."""

    def __init__(
        self,
        number: int,
        file: LogFile,
        matcher: Matcher,
        progress: ProgressReader,
        since: datetime | None,
        nodes: frozenset[str],
        limits: Limits,
    ) -> None:
        self.number = number
        self.file = file
        self.matcher = matcher
        self.progress = progress
        self.since = since
        self.nodes = nodes
        self.limits = limits
        self.found = _Found()
        self.year = datetime.now(UTC).year

    def run(self) -> _Found:
        """Raises `Unreadable`."""
        with LogReader(self.file.path) as log:
            log.refuse_what_is_no_text()
            self.year = datetime.fromtimestamp(log.modified, UTC).year
            start = self.file.start if self.file.start <= log.size else 0
            if log.size - start <= self.limits.whole:
                self._last(log, start)
            else:
                self._by_parts(log, start)
            self.found.bytes_read = log.bytes_read
        return self.found

    def _by_parts(self, log: LogReader, start: int) -> None:
        low = log.size - self.limits.tail
        head = min(start + self.limits.head, low)
        floor = max(head, log.size - self.limits.search)
        if self._last(log, low):
            return
        while low > floor and not self.found.decisive():
            high, low = low, max(floor, low - self.limits.tail)
            if self._window(log.window(low, high, self.limits.context), None):
                return
        self._window(log.window(start, head, 0), log.count_newlines(0, start) if start else 0)
        self.found.unread = max(0, low - head)

    def _last(self, log: LogReader, start: int) -> bool:
        """The part from `start` to the end; True if the attempt begins in it."""
        window = log.window(start, log.size, self.limits.context if start > self.file.start else 0)
        before = log.count_newlines(0, window.base) if window.base <= self.limits.count else None
        cut = self._window(window, before)
        text = window.text
        self.found.newest = self.progress.newest(text[max(window.own, cut) :])
        self._last_epoch(window, max(window.own, cut), before)
        self.found.tail = self._tail(window, max(window.own, cut), before)
        return cut > 0

    def _last_epoch(self, window: Window, start: int, before: int | None) -> None:
        """Keras's only sign of a good end, as a finding."""
        done = epochs.last_epoch_done(window.text, start)
        if done is None:
            return
        begin, end = done
        number = None if before is None else before + window.text.count(b"\n", 0, begin) + 1
        line = self._line(window.text, begin, end, window.base, number)
        order = (self.number << _FILE_ORDER) | (window.base + begin)
        finding = Finding(epochs.SIGNATURE, Cause.COMPLETED, epochs.SPECIFICITY, line, order, retry=Retry.NO)
        self.found.findings.setdefault(finding.signature, []).append(finding)

    def _window(self, window: Window, lines_before: int | None) -> int:
        """Findings of one piece; the position in it at which the attempt begins, 0 where that is not in it."""
        text = window.text
        cut = attempt_start(text[window.own :], self.since, self.year) if self.since is not None else 0
        start = window.own + cut
        counted, lines = 0, lines_before
        fresh: list[tuple[Finding, int, int]] = []
        named: set[int] = set()
        raised_at: dict[int, int] = {}
        spans = ((begin, end, False) for begin, end in _unalike(text, start))
        for begin, end, last_word in chain(spans, _ends_without_name(raised_at, named)):
            raw = _without_middle(text[begin:end].lstrip(b"\0"))
            if (not last_word and not self.matcher.may_match(raw)) or has_control(raw):
                continue
            cleaned = clean(raw, self.nodes)
            above = self._above(text, begin, start if cut else 0, cleaned.key)
            if is_shown(cleaned.text) or _is_source_code(cleaned.text, above):
                continue
            hits = self.matcher.match(cleaned.text if not last_word else as_exception(cleaned.text), above)
            if not hits and not last_word:
                hits = self.matcher.match(unstamped(cleaned.text), above)
            if not hits:
                continue
            if is_head(cleaned.text) and (span := traceback_end(text, end, cleaned.key, self.nodes)):
                raised_at[span[0]] = span[1]
            if any(not hit.signature.effect for hit in hits):
                named.add(begin)
            if lines is not None:
                lines += text.count(b"\n", counted, begin) if begin >= counted else -text.count(b"\n", begin, counted)
                counted = begin
            line = self._line(text, begin, end, window.base, None if lines is None else lines + 1)
            raised = window.base + self._raised(text, begin, start if cut else 0, cleaned, hits)
            mild = is_warning(cleaned.text) or is_handled(cleaned.text, self._below(text, end, cleaned.key))
            for hit in hits:
                finding = self._finding(hit, line, cleaned, raw, raised, mild)
                fresh.append((finding, begin, end))
                if hit.signature.notice:
                    self.found.signalled.append((window.base + begin, line))
        self._judge_survival(text, start, fresh)
        return start if cut else 0

    def _judge_survival(self, text: bytes, start: int, fresh: list[tuple[Finding, int, int]]) -> None:
        """Adds the findings, each with what the training did after it."""
        if not fresh:
            return
        fresh.sort(key=lambda item: item[1])
        first = fresh[0][1]
        marks = [
            mark
            for low, high in _merged((end, min(len(text), end + _SURVIVAL)) for _, _, end in fresh)
            for mark in self.progress.lines(text, low, high)
        ]
        places = [mark.position for mark in marks]
        ends = {text[begin:end] for finding, begin, end in fresh if finding.cause is Cause.COMPLETED}
        began = next(self.progress.lines(text, max(start, first - _SURVIVAL), first), None) is not None
        for finding, begin, end in fresh:
            after = {(m.epoch, m.step) for m in marks[bisect_left(places, end) :][: 8 * _ENOUGH_STEPS]}
            before = began or bisect_left(places, begin) > 0
            survived, well = len(after), 0
            if not survived and not finding.effect and finding.specificity >= _WORTH_COUNTING:
                below = text[end + 1 : end + _COUNTING]
                survived = len(counting(below))
                lines = below.replace(b"\r", b"\n").split(b"\n")
                well = sum(is_well(line) and line not in ends for line in lines)
            self.found.findings.setdefault(finding.signature, []).append(
                replace(finding, survived=min(_ENOUGH_STEPS, survived), well=well, startup=not before)
            )

    def _raised(self, text: bytes, begin: int, start: int, cleaned: CleanLine, hits: Sequence[Hit]) -> int:
        """The position from which a line counts: an exception was raised where its traceback begins."""
        if cleaned.text.startswith((b" ", b"\t")) or all(hit.signature.effect for hit in hits):
            return begin
        return traceback_start(text, begin, max(start, begin - self.limits.context), cleaned.key, self.nodes)

    def _above(self, text: bytes, begin: int, start: int, key: bytes) -> Callable[[int], Sequence[bytes]]:
        """A function that gives the cleaned lines above `begin`, nearest first, of the same writer."""
        lines: list[bytes] | None = None

        def above(count: int) -> Sequence[bytes]:
            nonlocal lines
            if lines is None:
                raw = text[max(start, begin - self.limits.context) : max(0, begin - 1)]
                cleaned = (clean(line, self.nodes) for line in reversed(raw.replace(b"\r", b"\n").split(b"\n")))
                lines = [line.text for line in cleaned if not key or line.key == key]
            return lines[:count]

        return above

    def _below(self, text: bytes, end: int, key: bytes) -> bytes:
        """The cleaned line that follows directly; empty where another writer has the word."""
        stop = text.find(b"\n", end + 1)
        below = clean(text[end + 1 : stop if stop >= 0 else len(text)], self.nodes)
        return below.text if below.key == key else b""

    def _line(self, text: bytes, begin: int, end: int, base: int, number: int | None) -> Line:
        quoted = text[begin : min(end, begin + _LONGEST)].decode("utf-8", "replace")
        return Line(self.file.path, number, quoted, base + begin)

    def _finding(self, hit: Hit, line: Line, cleaned: CleanLine, raw: bytes, offset: int, mild: bool) -> Finding:
        signature = hit.signature
        when = stamp(raw, self.year)
        rank = hit.extracted.get("rank")
        mild = mild and _says_more(signature)
        return Finding(
            signature=signature.id,
            cause=signature.cause,
            specificity=min(signature.specificity, 0 if is_information(cleaned.text) else _WARNED)
            if mild
            else signature.specificity,
            where=line,
            order=(self.number << _FILE_ORDER) | offset,
            at=None if when is None else aware(when),
            effect=signature.effect or mild,
            survivable=signature.survivable,
            retry=signature.retry,
            node=hit.extracted.get("node") or cleaned.node,
            rank=int(rank) if rank and rank.isdigit() else cleaned.rank,
            extracted=hit.extracted,
            advice=signature.advice,
        )

    def _tail(self, window: Window, start: int, lines_before: int | None) -> tuple[Line, ...]:
        """The last lines, for people."""
        text = window.text
        lines: list[Line] = []
        end = len(text) - 1 if text.endswith(b"\n") else len(text)
        number = None if lines_before is None else lines_before + text.count(b"\n", 0, end) + 1
        while end > start and len(lines) < _TAIL_LINES:
            begin = max(text.rfind(b"\n", start, end) + 1, start)
            shown = text[begin:end].rstrip(b"\r").rpartition(b"\r")[2][:_LONGEST]
            lines.append(Line(self.file.path, number, shown.decode("utf-8", "replace"), window.base + begin))
            number = None if number is None else number - 1
            end = begin - 1
        return tuple(reversed(lines))


def _without_middle(line: bytes) -> bytes:
    half = _MATCHED // 2
    return line if len(line) <= _MATCHED else b"%s ... %s" % (line[:half], line[-half:])


def _says_more(signature: Signature) -> bool:
    """Whether it matters that the program calls the line a warning: a notice of Slurm or of an end is none."""
    return not signature.warning and not signature.notice and signature.cause is not Cause.COMPLETED


def _unalike(text: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Spans of lines, cut at newlines and carriage returns, without the bulk of those that differ only in digits.

    A million such lines say the same: the first few are given, and the last one, out of order at the end.
    """
    seen: dict[bytes, int] = {}
    last: dict[bytes, tuple[int, int]] = {}
    own = text[start:] if start else text
    lines = (own.replace(b"\r", b"\n") if b"\r" in own else own).split(b"\n")
    at = start
    for length, shape in zip(map(len, lines), own.translate(_SHAPE, b"0123456789").split(b"\n"), strict=True):
        count = seen.get(shape, 0)
        if count >= _ALIKE:
            last[shape] = (at, at + length)
        elif length:
            if len(seen) < _SHAPES:
                seen[shape] = count + 1
            yield at, at + length
        at += length + 1
    yield from sorted(last.values())


def _ends_without_name(raised_at: Mapping[int, int], named: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """The last lines of tracebacks that nothing matched by then: their class is not called an error."""
    yield from sorted((begin, end, True) for begin, end in raised_at.items() if begin not in named)


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ascending ranges, with those that touch made one."""
    low = high = -1
    for begin, end in ranges:
        if begin > high:
            if high > low:
                yield low, high
            low, high = begin, end
        else:
            high = max(high, end)
    if high > low:
        yield low, high


def _is_source_code(line: bytes, above: Callable[[int], Sequence[bytes]]) -> bool:
    """A line of a traceback that quotes a file or its code (`raise RuntimeError("CUDA error")`), not what happened."""
    if not line.startswith(b"  "):
        return False
    if line.lstrip().startswith(b'File "'):
        return True
    depth = len(line) - len(line.lstrip(b" "))
    return depth >= 4 and any(
        text[: depth - 2].isspace() and text[depth - 2 :].startswith(b'File "') for text in above(1)
    )


def _capped(group: list[Finding]) -> list[Finding]:
    """The first few and the last of one signature: a thousand like lines say no more."""
    ordered = sorted(group, key=lambda finding: finding.order)
    return ordered if len(ordered) <= _KEPT else [*ordered[: _KEPT - 1], ordered[-1]]
