"""Matching names, without the cost of regular expressions at the start of a program.

Importing `re` takes nearly as long as starting Python, and compiling the patterns of all formats as long again; at the
head of a batch script neither is needed. `Template` serves the names of most files; `Pattern` is a regular expression
that is compiled when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Match, Optional, Tuple, Union

IGNORECASE, MULTILINE = 2, 8
"""As in `re`."""


class Template:
    """A name with numbers in it.

    >>> Template("zero_pp_rank_{}_mp_rank_{}_optim_states.pt").match("zero_pp_rank_3_mp_rank_00_optim_states.pt")
    ('3', '00')
    """

    __slots__ = ("_parts",)

    def __init__(self, text: str) -> None:
        self._parts = text.split("{}")

    def match(self, name: str) -> Optional[Tuple[str, ...]]:
        """The digits in place of each `{}`, where the whole name is like that; else None."""
        parts = self._parts
        if not name.startswith(parts[0]) or not name.endswith(parts[-1]):
            return None
        found = []
        at = len(parts[0])
        size = len(name)
        for part in parts[1:]:
            end = at
            while end < size and "0" <= name[end] <= "9":
                end += 1
            if end == at or end - at > 18 or not name.startswith(part, end):
                return None
            found.append(name[at:end])
            at = end + len(part)
        return tuple(found) if at == size else None


def number_runs(name: str) -> List[Tuple[int, int]]:
    """(begin, end) of each run of digits."""
    runs = []
    at, size = 0, len(name)
    while at < size:
        if "0" <= name[at] <= "9":
            end = at + 1
            while end < size and "0" <= name[end] <= "9":
                end += 1
            runs.append((at, end))
            at = end
        at += 1
    return runs


class Pattern:
    """Takes the place of `re.compile(text)` at the top of a module."""

    match: Callable[[str], Optional[Match[str]]]
    search: Callable[[str], Optional[Match[str]]]
    fullmatch: Callable[[str], Optional[Match[str]]]
    findall: Callable[[str], List[Any]]
    sub: Callable[[Union[str, Callable[[Match[str]], str]], str], str]
    finditer: Callable[[str], Iterator[Match[str]]]

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Only reached before the first use: compiles, and puts the methods of the real pattern in place."""
        if name.startswith("_"):
            raise AttributeError(name)
        import re

        compiled = re.compile(self._text, self._flags)
        self.match, self.search, self.fullmatch = compiled.match, compiled.search, compiled.fullmatch
        self.findall, self.finditer, self.sub = compiled.findall, compiled.finditer, compiled.sub
        return getattr(compiled, name)
