"""Many patterns, one pass: which signatures a line carries.

Three stages, each linear in the text (google-re2, no backtracking): an automaton of the literals that patterns need
finds the few lines that are worth a look; one RE2 set says which patterns such a line matches; only those are searched
singly, for what they extract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        words = "|".join(re2.escape(word) for word in sorted(literals))
        self._words = re2.compile(words.encode(), _options(ignore_case=True))

    def may_match(self, line: bytes) -> bool:
        """Whether the line holds a text that some signature needs; false for nearly every line of a healthy log."""
        return self._every_line or self._words.search(line) is not None

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
        return _without_idle_fallbacks(hits)

    def _confirm(
        self, compiled: _Compiled, indexes: list[int], line: bytes, above: Callable[[int], Sequence[bytes]]
    ) -> dict[str, str] | None:
        signature = compiled.signature
        if signature.unless and compiled.unless.search(line):
            return None
        if signature.not_after and any(
            compiled.not_after.search(text) for text in _of_one_traceback(above(signature.within))
        ):
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


def _of_one_traceback(above: Sequence[bytes]) -> Sequence[bytes]:
    """The lines up to the one above the head of the traceback: what an earlier one was about is another matter."""
    head = next((n for n, text in enumerate(above) if text.startswith(b"Traceback (most recent call last)")), None)
    return above if head is None else above[: head + 2]


def _without_idle_fallbacks(hits: list[Hit]) -> list[Hit]:
    """Fallbacks only where nothing else names the line, and of several the most specific."""
    fallbacks = [hit for hit in hits if hit.signature.fallback]
    if not fallbacks:
        return hits
    others = [hit for hit in hits if not hit.signature.fallback]
    if any(hit.signature.specificity >= _ECHO for hit in others):
        return others
    return [*others, max(fallbacks, key=lambda hit: hit.signature.specificity)]


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
