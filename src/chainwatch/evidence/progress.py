"""How far a run is, read from its log: step, final step, loss.

Each framework prints its step in its own words. A profile is one pattern for such a line; `auto` tries all of them and
believes the newest line that any of them reads. Users give their own pattern with named groups `step`, and optionally
`total`, `epoch`, `loss`, `tokens`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LOSS = rf"(?:{_NUMBER}|[-+]?(?i:nan|inf(?:inity)?)\b)"
"""A loss that was lost counts as one: people want to hear of it."""
_STEP = r"(?P<step>\d[\d,]*)"
_TOTAL = r"(?P<total>\d[\d,]*)"

PROFILES: Mapping[str, tuple[str, ...]] = {
    "hf_trainer": (
        rf"\{{'loss': '?(?P<loss>{_LOSS})'?,.*'step': {_STEP}",
        rf"(?:^|[\s\r])\d+%\|[^|]*\| *{_STEP}/{_TOTAL} \[",
    ),
    "deepspeed": (rf"\bstep={_STEP}, *skipped=\d+", rf"steps: {_STEP} loss: (?P<loss>{_LOSS})"),
    "megatron": (rf"\biteration +{_STEP}/ *{_TOTAL} \|(?:.*lm loss: (?P<loss>{_LOSS}))?",),
    "lightning": (
        rf"Epoch (?P<epoch>\d+): +\d+%\|[^|]*\| *{_STEP}/{_TOTAL} \[(?:.*?loss(?:_step)?=(?P<loss>{_LOSS}))?",
    ),
    "nemo": (
        rf"\bglobal_step[=: ]+{_STEP}(?:.*?reduced_train_loss[=: ]+(?P<loss>{_LOSS}))?",
        rf"Training epoch \d+, iteration {_STEP}/{_TOTAL} \|",
    ),
    "accelerate": (rf"Steps: +\d+%\|[^|]*\| *{_STEP}/{_TOTAL} \[(?:.*?(?:step_)?loss=(?P<loss>{_LOSS}))?",),
    "torchtitan": (rf"\bstep: +{_STEP} +loss: +(?P<loss>{_LOSS})",),
    "nanotron": (
        rf"\biteration: {_STEP} / {_TOTAL} \|(?: consumed_tokens: (?P<tokens>[\d.]+[KMGBT]?) \|)?"
        rf"(?:.*?lm_loss: (?P<loss>{_LOSS}))?",
    ),
    "marian": (rf"\bEp\. (?P<epoch>\d+) : Up\. {_STEP} : (?:.*?Cost (?P<loss>{_LOSS}))?",),
    "fairseq": (rf'"num_updates": "{_STEP}"',),
    "tqdm": (rf"\d+%\|[^|]*\| *{_STEP}/{_TOTAL} \[(?:.*?loss[=:] ?(?P<loss>{_LOSS}))?",),
    "keras": (rf"^ *{_STEP}/{_TOTAL} +(?:\[[=>.]+\]|[━\x1b]).*(?:loss: (?P<loss>{_LOSS}))?",),
    "generic": (
        # A bare count (`steps: 80000`) is what a run was asked for; with a total or a loss it is a step.
        rf"(?:^|[^\w./-])(?:[Gg]lobal[_ ][Ss]tep|[Tt]rain(?:ing)?[_ ][Ss]tep|[Ss]tep|[Ii]teration|[Ii]ter|[Uu]pdate)\b"
        rf"[\"']?\s*[:=#\[ ]\s*{_STEP}(?:\s*(?:/|of)\s*{_TOTAL})?"
        rf"(?:.*?\b[Ll]oss\b[\"']?\s*[:= ]\s*(?P<loss>{_LOSS}))?",
        rf"(?:^|[^\w./-])(?:[Ss]teps|[Uu]pdates)[\"']?\s*[:=#\[ ]\s*{_STEP}\s*(?:/|of)\s*{_TOTAL}"
        rf"(?:.*?\b[Ll]oss\b[\"']?\s*[:= ]\s*(?P<loss>{_LOSS}))?",
        rf"(?:^|[^\w./-])(?:[Ss]teps|[Uu]pdates)[\"']?\s*[:=#\[ ]\s*{_STEP}\b"
        rf".*?\b[Ll]oss\b[\"']?\s*[:= ]\s*(?P<loss>{_LOSS})",
        rf"Epoch: ?\[(?P<epoch>\d+)\] ?\[ *{_STEP}/{_TOTAL}\](?:.*?[Ll]oss:? (?P<loss>{_LOSS}))?",
    ),
}
"""Patterns (RE2) by profile, the telling ones first."""

_ASKED_FOR = re2.compile(
    rb"(?:^|\s)--[A-Za-z]|\b(?:Namespace|[Aa]rguments|[Aa]rgs|[Cc]onfig|[Hh]params)\b *[(:={]|^\+ "
)
"""A command line (also as the shell prints it when it was killed) or a dump of settings: it tells what was asked for, and
the generic profile reads no step there."""
_TAIL = 1 << 18
"""Bytes at the end of a log in which the newest step is looked for."""
_BLOCK = 1 << 13
_LONGEST = 1 << 14
"""Bytes of a line that are read: the last ones."""
_UNITS = {b"K": 10**3, b"M": 10**6, b"G": 10**9, b"B": 10**9, b"T": 10**12}


@dataclass(frozen=True, slots=True)
class Reached:
    """One line that tells progress."""

    step: int
    total: int | None
    loss: float | None
    position: int
    """Byte offset in the text that was searched."""
    profile: str
    epoch: int | None = None
    tokens: int | None = None


class ProgressReader:
    """Reads steps out of log text with one profile, all of them, or the user's own pattern."""

    def __init__(self, profile: str = "auto", pattern: str | None = None) -> None:
        """`pattern` must be valid RE2 with a group `step`; raises ValueError with a sentence otherwise."""
        if pattern is not None:
            chosen: Mapping[str, tuple[str, ...]] = {"your pattern": (pattern,)}
        elif profile == "auto":
            chosen = PROFILES
        elif profile in PROFILES:
            chosen = {profile: PROFILES[profile]}
        else:
            raise ValueError(f"progress profile {profile!r} is not known; one of auto, {', '.join(PROFILES)}")
        self._patterns = [(name, _compile(text)) for name, texts in chosen.items() for text in texts]
        self._any = re2.Set.SearchSet(_options())
        for texts in chosen.values():
            for text in texts:
                self._any.Add(text.encode())
        self._any.Compile()

    def lines(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[Reached]:
        """Every line that tells a step, in the order of the text; carriage returns end a line too."""
        for begin, stop in _line_spans(text, start, len(text) if end is None else end):
            reached = self.read(text[begin:stop], begin)
            if reached is not None:
                yield reached

    def read(self, line: bytes, position: int = 0) -> Reached | None:
        """The step that this line tells, or None."""
        first: Reached | None = None
        line = line[-_LONGEST:]
        for number in sorted(self._any.Match(line) or ()):
            reached = self._by(number, line, position)
            if reached is None:
                continue
            if reached.loss is not None and (first is None or first.step == reached.step):
                return reached  # of two readings of one step the one that tells more
            first = first or reached
        return first

    def _by(self, number: int, line: bytes, position: int) -> Reached | None:
        name, pattern = self._patterns[number]
        if name == "generic" and _ASKED_FOR.search(line):
            return None
        found = pattern.search(line)
        if not found:
            return None
        groups = {key.decode(): value for key, value in found.groupdict().items() if value is not None}
        if "step" not in groups:
            return None
        return Reached(
            step=_whole(groups["step"]),
            total=_whole(groups["total"]) if "total" in groups else None,
            loss=_real(groups.get("loss")),
            position=position,
            profile=name,
            epoch=_whole(groups["epoch"]) if "epoch" in groups else None,
            tokens=_counted(groups.get("tokens")),
        )

    def newest(self, text: bytes) -> Reached | None:
        """The step of the last line that tells one, looking at the end of the text only."""
        end, floor = len(text), max(0, len(text) - _TAIL)
        while end > floor:
            start = max(floor, text.rfind(b"\n", floor, max(floor, end - _BLOCK)) + 1)
            for begin, stop in reversed(list(_line_spans(text, start, end))):
                reached = self.read(text[begin:stop], begin)
                if reached is not None:
                    return reached
            end = start
        return None


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return options


@lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    try:
        compiled = re2.compile(pattern.encode(), _options())
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise ValueError(f"progress pattern {pattern!r} is not valid RE2: {message}") from None
    if b"step" not in compiled.groupindex:
        raise ValueError(f"progress pattern {pattern!r} needs a named group: (?P<step>…)")
    return compiled


def _line_spans(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    while at < end:
        newline = text.find(b"\n", at, end)
        newline = end if newline < 0 else newline
        if text.find(b"\r", at, newline) < 0:
            yield at, newline
        else:
            begin = at
            for piece in text[at:newline].split(b"\r"):
                yield begin, begin + len(piece)
                begin += len(piece) + 1
        at = newline + 1


def _whole(text: bytes) -> int:
    return int(text.replace(b",", b""))


def _counted(text: bytes | None) -> int | None:
    """A number that may be short for a large one: `1.3M`, `2B`."""
    if text is None:
        return None
    unit = _UNITS.get(text[-1:].upper(), 1)
    number = _real((text[:-1] if unit > 1 else text).replace(b",", b"").replace(b"_", b""))
    return int(number * unit) if number is not None and 0 <= number < 1e18 else None


def _real(text: bytes | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
