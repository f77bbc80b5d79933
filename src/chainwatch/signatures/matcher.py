"""Many patterns, one pass: which signatures a line carries.

Three stages, each linear in the text (google-re2, no backtracking): an automaton of the literals that patterns need
finds the few lines that are worth a look; one RE2 set says which patterns such a line matches; only those are searched
singly, for what they extract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import re2

from chainwatch.signatures.literals import required_literals
from chainwatch.signatures.load import builtin_signatures
from chainwatch.signatures.signature import Signature
from chainwatch.signatures.xid import judge_xid

_ECHO = 12
"""Signatures below this specificity are echoes, and do not name what happened."""
_MEMORY = 48 << 20
"""Upper bound of an automaton's cache in bytes; a normal log needs a tenth of it."""


def _options(*, ignore_case: bool = False) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    return options


@dataclass(frozen=True, slots=True)
class Hit:
    """One signature found in one line, with what it extracted."""

    signature: Signature
    extracted: Mapping[str, str]


class _Compiled:
    """Single patterns of one signature, compiled when first needed."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature

    @cached_property
    def unless(self) -> Any:
        return re2.compile(self.signature.unless.encode(), _options())

    @cached_property
    def after(self) -> Any:
        return re2.compile(self.signature.after.encode(), _options())

    @cached_property
    def not_after(self) -> Any:
        return re2.compile(self.signature.not_after.encode(), _options())

    def extracts(self, index: int) -> bool:
        return "(?P<" in self.signature.patterns[index]

    @cached_property
    def patterns(self) -> tuple[Any, ...]:
        return tuple(re2.compile(pattern.encode(), _options()) for pattern in self.signature.patterns)


class Matcher:
    """All signatures, ready to be looked for."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = tuple(signatures)
        self._compiled = [_Compiled(signature) for signature in self.signatures]
        self._owner: list[tuple[int, int]] = []
        self._set = re2.Set.SearchSet(_options())
        literals: set[str] = set()
        self._every_line = False
        for number, signature in enumerate(self.signatures):
            for index, pattern in enumerate(signature.patterns):
                self._set.Add(pattern.encode())
                self._owner.append((number, index))
                needs = required_literals(pattern)
                if needs is None:
                    self._every_line = True
                else:
                    literals |= needs
        self._set.Compile()
        words = [word for word in literals if not any(other in word for other in literals if other != word)]
        self._words = re2.compile("|".join(re2.escape(w) for w in sorted(words)).encode(), _options(ignore_case=True))

    def candidates(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Spans of the lines of `text` (cut at newlines and carriage returns) that may carry a signature."""
        at, end = start, len(text) if end is None else end
        while at < end:
            if self._every_line:
                first = last = at
            else:
                found = self._words.search(text, at, end)
                if found is None:
                    return
                first, last = found.span()
            begin = max(text.rfind(b"\n", at, first), text.rfind(b"\r", at, first)) + 1 or at
            newline = text.find(b"\n", last, end)
            newline = end if newline < 0 else newline
            bar = text.find(b"\r", last, newline)
            stop = newline if bar < 0 else bar
            yield begin, stop
            at = stop + 1

    def match(self, line: bytes, above: Callable[[int], Sequence[bytes]]) -> list[Hit]:
        """Signatures of one cleaned line. `above(n)` gives up to n cleaned lines before it, nearest first."""
        matched: dict[int, list[int]] = {}
        for found in self._set.Match(line) or ():
            number, index = self._owner[found]
            matched.setdefault(number, []).append(index)
        hits: list[Hit] = []
        for number in sorted(matched):
            extracted = self._confirm(self._compiled[number], sorted(matched[number]), line, above)
            if extracted is not None:
                hits.append(Hit(_by_table(self.signatures[number], extracted, line), extracted))
        named = any(not hit.signature.fallback and hit.signature.specificity >= _ECHO for hit in hits)
        return [hit for hit in hits if not (named and hit.signature.fallback)]

    def _confirm(
        self, compiled: _Compiled, indexes: list[int], line: bytes, above: Callable[[int], Sequence[bytes]]
    ) -> dict[str, str] | None:
        signature = compiled.signature
        if signature.unless and compiled.unless.search(line):
            return None
        if signature.not_after and any(compiled.not_after.search(text) for text in above(signature.within)):
            return None
        extracted: dict[str, str] = {}
        if signature.after:
            context = next(filter(None, (compiled.after.search(text) for text in above(signature.within))), None)
            if context is None:
                return None
            extracted |= _groups(context)
        for index in indexes:
            if compiled.extracts(index) and (found := compiled.patterns[index].search(line)):
                extracted = {**_groups(found), **extracted}
        return extracted


def _groups(found: Any) -> dict[str, str]:
    return {
        name.decode(): value.decode("utf-8", "replace")
        for name, value in found.groupdict().items()
        if value is not None
    }


def _by_table(signature: Signature, extracted: dict[str, str], line: bytes) -> Signature:
    if signature.table == "xid" and "xid" in extracted:
        return judge_xid(signature, int(extracted["xid"]), line.decode("utf-8", "replace"))
    return signature


@lru_cache(maxsize=1)
def builtin_matcher() -> Matcher:
    """The matcher of the built-in families; compiled once per process."""
    return Matcher(builtin_signatures())
