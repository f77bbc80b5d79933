"""Which literal text a pattern cannot do without.

A log of a gigabyte has ten million lines, and a few hundred patterns. Each pattern needs some literal text ("out of
memory"); one automaton that looks for all those texts at once skips nearly every line at half a gigabyte per second,
and only lines that hold one of them are matched properly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORTEST = 3
"""A shorter text would be found in nearly every line."""
DULL = frozenset(
    {"loss", "grad", "norm", "step", "steps", "time", "rate", "iter", "iters", "epoch", "epochs", "node", "model"}
    | {"info", "inf", "not", "gpu", "train", "training", "token", "tokens", "image", "port", "link", "done", "path"}
    | {"checkpoint", "ckpt", "batch", "data", "value", "number", "file", "rank", "size", "global", "limit", "reached"}
    | {"error"}
)
"""Words of healthy lines: a pattern is looked for by another of its texts, where it has one."""

_RUN = re.compile(r"[^\\()\[\]{}|^$.*+?]+")

_QUANTIFIERS = frozenset("*+?{")
_CLASS_ESCAPES = frozenset("dDwWsSbBAzpPC")


@dataclass
class _Part:
    """One element of a concatenation: a literal character, or what a group needs (None: nothing in particular)."""

    char: str | None = None
    needs: frozenset[str] | None = None


class _Reader:
    """Recursive descent over RE2 syntax; unknown syntax is read as "needs nothing", which is always safe."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def alternation(self) -> frozenset[str] | None:
        branches = [self.concatenation()]
        while self.peek() == "|":
            self.take()
            branches.append(self.concatenation())
        if any(branch is None for branch in branches):
            return None
        return frozenset().union(*(branch for branch in branches if branch is not None))

    def concatenation(self) -> frozenset[str] | None:
        best: frozenset[str] | None = None
        run = ""

        def offer(candidate: frozenset[str] | None) -> None:
            nonlocal best
            if (
                candidate
                and min(map(len, candidate)) >= SHORTEST
                and (best is None or _worth(candidate) > _worth(best))
            ):
                best = candidate

        while self.peek() not in ("", "|", ")"):
            if plain := _RUN.match(self.text, self.at):
                self.at = plain.end()
                keep = plain[0][:-1] if self.peek() in _QUANTIFIERS else plain[0]
                run += keep.lower()
                if len(keep) == len(plain[0]):
                    continue
                self.at -= 1
            part = self.element()
            optional, repeated = self.quantifier()
            if part.char is not None and not optional:
                run += part.char
                if repeated:
                    offer(frozenset({run}))
                    run = ""
                continue
            offer(frozenset({run}) if run else None)
            run = ""
            if not optional:
                offer(part.needs)
        offer(frozenset({run}) if run else None)
        return best

    def element(self) -> _Part:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            self.skip_class()
            return _Part()
        if char == "\\":
            return self.escape()
        if char in ".^$":
            return _Part()
        return _Part(char=char.lower())

    def group(self) -> _Part:
        if self.peek() == "?":
            self.take()
            while self.peek() not in ("", ":", ">", ")"):
                self.take()
            if self.take() == ")":
                return _Part()
        needs = self.alternation()
        self.take()
        return _Part(needs=needs)

    def skip_class(self) -> None:
        if self.peek() == "^":
            self.take()
        if self.peek() == "]":
            self.take()
        while (char := self.take()) not in ("", "]"):
            if char == "\\":
                self.take()
            elif char == "[" and self.peek() == ":":
                while self.take() not in ("", "]"):
                    pass

    def escape(self) -> _Part:
        char = self.take()
        if char in _CLASS_ESCAPES:
            if char in "pP":
                self.skip_braces() if self.peek() == "{" else self.take()
            return _Part()
        if char == "x":
            self.skip_braces() if self.peek() == "{" else (self.take(), self.take())
            return _Part()
        return _Part() if char.isalnum() else _Part(char=char.lower())

    def skip_braces(self) -> None:
        while self.take() not in ("", "}"):
            pass

    def quantifier(self) -> tuple[bool, bool]:
        """Whether the element before may be absent, and whether it may be repeated."""
        optional = repeated = False
        while self.peek() and self.peek() in "*+?{":
            char = self.take()
            if char == "{":
                start = self.at
                self.skip_braces()
                optional |= self.text[start] in "0,"
                repeated = True
            elif char == "+":
                repeated = True
            else:
                optional = True
        return optional, repeated


def _worth(needs: frozenset[str]) -> tuple[bool, int, int]:
    """Dull words are found everywhere; longer is rarer; fewer alternatives are cheaper."""
    return not any(text.strip() in DULL for text in needs), min(16, min(map(len, needs))), -len(needs)


def required_literals(pattern: str) -> frozenset[str] | None:
    """Lower-case texts of which every match of `pattern` holds at least one; None where there are none of use."""
    return _Reader(pattern).alternation()
