"""Reading one log: every line of it that may say why the attempt ended, cleaned, matched and weighed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

from chainwatch.evidence.logs import epochs
from chainwatch.evidence.logs.attempt import attempt_start
from chainwatch.evidence.logs.file import LogReader, Window, has_control
from chainwatch.evidence.logs.spans import unalike, without_middle
from chainwatch.evidence.logs.survival import ENOUGH_STEPS, judged
from chainwatch.evidence.logs.text import CleanLine, aware, clean, stamp, unstamped
from chainwatch.evidence.logs.tone import is_handled, is_information, is_shown, is_warning
from chainwatch.evidence.logs.tracebacks import as_exception, is_head, is_source_code, traceback_end, traceback_start
from chainwatch.evidence.progress import ProgressReader, Reached
from chainwatch.model.verdict import Cause, Finding, Line, Retry
from chainwatch.signatures import Hit, Matcher, Signature

_FILE_ORDER = 44
"""Orders of findings are `file number << 44 | byte offset`."""
_LONGEST = 8192
"""A line is quoted up to this many bytes."""
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
class Found:
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
            finding.specificity >= 50 and not finding.effect and finding.survived < ENOUGH_STEPS
            for findings in self.findings.values()
            for finding in findings
        )


class Scan:
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
        self.found = Found()
        self.year = datetime.now(UTC).year

    def run(self) -> Found:
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
        spans = ((begin, end, False) for begin, end in unalike(text, start))
        for begin, end, last_word in chain(spans, _ends_without_name(raised_at, named)):
            raw = without_middle(text[begin:end].lstrip(b"\0"))
            if (not last_word and not self.matcher.may_match(raw)) or has_control(raw):
                continue
            cleaned = clean(raw, self.nodes)
            above = self._above(text, begin, start if cut else 0, cleaned.key)
            if is_shown(cleaned.text) or is_source_code(cleaned.text, above):
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
        for finding in judged(self.progress, text, start, fresh):
            self.found.findings.setdefault(finding.signature, []).append(finding)
        return start if cut else 0

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


def _says_more(signature: Signature) -> bool:
    """Whether it matters that the program calls the line a warning: a notice of Slurm or of an end is none."""
    return not signature.warning and not signature.notice and signature.cause is not Cause.COMPLETED


def _ends_without_name(raised_at: Mapping[int, int], named: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """The last lines of tracebacks that nothing matched by then: their class is not called an error."""
    yield from sorted((begin, end, True) for begin, end in raised_at.items() if begin not in named)
