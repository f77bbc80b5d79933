"""How the demo tells the night to somebody who has never seen chainwatch: wrapped lines, and a table at the end."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROLOGUE = """\
One training run, one bad night. A private Slurm of four nodes is booted, and a run of {steps} steps is submitted to it.
Lines with [seconds] are the stage: what is done to the run. Lines with | are what chainwatch itself says and decides.
The night takes about three minutes; Ctrl-C ends everything that was started."""

_FACTS = re.compile(r"\s+\((?:\w+=[^\s()]*\s?)+\)$")
"""What the log has behind each sentence, for programs."""
_LINE = re.compile(r"^(?P<time>\d\d:\d\d:\d\d)\s+(?P<text>.*)$")
_WEIGHTY = ("resubmits:", "would resubmit", "submits the first job", "was moved aside", ": done:", "names ")
_MARGIN = " " * 10 + "| "
_BOLD, _DIM, _CYAN, _OFF = "\033[1m", "\033[2m", "\033[1;36m", "\033[0m"


@dataclass(frozen=True, slots=True)
class Telling:
    """Where it is told: how wide the terminal is, and whether it knows colours."""

    width: int = 110
    colours: bool = False

    @classmethod
    def here(cls, colours: bool) -> Telling:
        """For this terminal."""
        return cls(max(60, min(140, shutil.get_terminal_size((110, 24)).columns)), colours)

    def stage(self, seconds: float, sentence: str) -> Iterator[str]:
        """What is done to the run."""
        head = f"[{seconds:5.1f} s] "
        for line in sentence.splitlines():
            for part in self._wrapped(line, head):
                yield self._in(_CYAN, part)

    def daemon(self, line: str) -> Iterator[str]:
        """One line of chainwatch's log; its decisions stand out."""
        found = _LINE.match(line)
        if found is None:
            yield from self._wrapped(line, _MARGIN)
            return
        text = _FACTS.sub("", found["text"])
        colour = _BOLD if any(word in text for word in _WEIGHTY) else _DIM
        for part in self._wrapped(text, f"{_MARGIN}{found['time']}  "):
            yield self._in(colour, part)

    def table(self, attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What became of each job: what Slurm said, what chainwatch found, and what was saved."""
        head = ("#", "job", "Slurm said", "chainwatch found", "it began from", "reached", "intact")
        rows = [head, *(_row(attempt) for attempt in attempts)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for number, row in enumerate(rows):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            yield self._in(_BOLD, line) if number == 0 else line

    def _wrapped(self, text: str, head: str) -> list[str]:
        indent = _MARGIN + " " * (len(head) - len(_MARGIN)) if head.startswith(_MARGIN) else " " * len(head)
        return textwrap.wrap(
            text, self.width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
        ) or [head.rstrip()]

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_OFF}" if self.colours else text


def _row(attempt: Mapping[str, Any]) -> tuple[str, ...]:
    code = attempt.get("exit_code") or ""
    from_where = str(attempt.get("resumed_from") or "").rsplit("/", 1)[-1]
    if not from_where:
        from_where = "the script chose" if not attempt.get("ours") else "the beginning"
    return (
        str(attempt["number"]),
        str(attempt["job"]),
        f"{attempt['state']} {code}".strip(),
        str(attempt.get("cause") or "-").replace("_", " "),
        from_where,
        _step(attempt.get("step")),
        _step(attempt.get("saved_step")),
    )


def _step(step: object) -> str:
    return "-" if step is None else f"step {step}"
