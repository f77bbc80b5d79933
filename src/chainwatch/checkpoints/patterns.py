"""Regular expressions that are compiled when they are first used.

Compiling the few dozen patterns of all formats would take longer than everything else that `chainwatch latest` does.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, List, Match, Optional, Union


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
        compiled = re.compile(self._text, self._flags)
        self.match, self.search, self.fullmatch = compiled.match, compiled.search, compiled.fullmatch
        self.findall, self.finditer, self.sub = compiled.findall, compiled.finditer, compiled.sub
        return getattr(compiled, name)
