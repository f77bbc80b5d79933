"""Patterns that people write (RE2 syntax), to be searched in each line of a log: what is wrong with one."""

from __future__ import annotations

_ANY_LINE = ("q", "7")
"""What has nothing in common: a pattern that both of them meet asks for nothing."""


def in_lines(pattern: str) -> str:
    """The pattern for a text of many lines: it is searched in each of them, so that `^` and `$` are a line's."""
    return f"(?m){pattern}"


def wrong_with(pattern: str) -> str:
    """Why a pattern cannot be used, for people; empty if it can. One that every line meets would find its text everywhere:
    a run would be done, or dead, at its first line."""
    import re2  # here, since most commands meet no pattern

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error.args[0]
        return f"{pattern!r} is no pattern in RE2 syntax ({reason}); RE2 has no look-around and no back-references"
    if compiled.search("") or all(compiled.search(line) for line in _ANY_LINE):
        which = "an empty line" if compiled.search("") else "nearly every line"
        return f"{pattern!r} is met by {which}; words that the line must have are expected"
    return ""
