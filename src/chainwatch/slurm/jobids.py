"""What people and Slurm write as a job's id: `123`, `123_4`, `123_[3-9%2]`, `123+1`, and with a step `123+0.batch`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

_ID = re.compile(
    r"""^\s*(?P<base>\d{1,10})
        (?: _\[(?P<rest>[^\]]*)\]? | _(?P<task>\d{1,10}) | _(?P<open>[\d,:%-]+(?:\.\.\.)?) | \+(?P<component>\d{1,10}) )?
        (?: \.(?P<step>[A-Za-z0-9_+]+) )?\s*$""",
    re.VERBOSE | re.ASCII,
)
_MOST_ID = 2**32
"""Slurm's ids are 32 bits wide."""
_MOST = 4_000_001
"""MaxArraySize cannot be larger."""


@dataclass(frozen=True, slots=True)
class ShownId:
    """The parts of a shown job id."""

    base: int
    """The first number: a job, an array, or the leader of a het job. Not the raw id of a task or component."""
    task: str | None = None
    """`4`, or the pending rest of an array with its brackets, `[3-9%2]`."""
    component: int | None = None
    """Offset of a het job's component."""
    step: str | None = None
    """`batch`, `extern`, `0`; cut names (`b+`) as they stand."""
    limit: int | None = None
    """The `%N`: how many tasks may run at once."""
    cut: bool = False
    """Slurm cut the list of tasks (`…`, `...`): the tasks named are not all."""

    def tasks(self) -> tuple[int, ...]:
        """Numbers of the tasks that this id names, ascending; empty for what is no array."""
        return () if self.task is None else expand_tasks(self.task)


def parse_job_id(text: str) -> ShownId | None:
    """The parts of a shown id; None where the text is none (a header, a truncated column without a number)."""
    found = _ID.match(text)
    if not found or int(found["base"]) >= _MOST_ID:
        return None
    rest = found["open"] if found["rest"] is None else found["rest"]  # cut forms: `80520_31-33,71-74,115-11...`
    task = found["task"]
    limit, cut = None, False
    if rest is not None:
        cut = "..." in rest
        _, percent, number = rest.partition("%")
        limit = (_number(number) or None) if percent else None
        task = f"[{rest}]"
    component = found["component"]
    return ShownId(
        base=int(found["base"]),
        task=task,
        component=None if component is None else int(component),
        step=found["step"],
        limit=limit,
        cut=cut,
    )


def expand_tasks(text: str) -> tuple[int, ...]:
    """Task numbers of `4`, `3-9%2`, `[1-9:2]`, `60-89,91-94`, ascending and each once; a cut tail is left out."""
    inside = text.strip().strip("[]").partition("%")[0]
    numbers: set[int] = set()
    for part in inside.split(","):
        numbers.update(_range(part.strip()))
    return tuple(sorted(numbers))


def side_by_side(array: str) -> int:
    """How many tasks of `--array=array` may run at once; 1: they come one after another, or there is just one."""
    tasks, limit = len(expand_tasks(array)), _number(array.strip().rstrip("]").partition("%")[2])
    return min(tasks, limit) if limit else tasks


def one_by_one(array: str) -> bool:
    """The tasks of `--array=array` come one after another, or there is just one: together they are one chain."""
    return side_by_side(array) < 2


def compress_tasks(tasks: Iterable[int], limit: int | None = None) -> str:
    """`[3-9%2]` of these task numbers; a single one without a limit stands alone, `4`."""
    numbers = sorted(set(tasks))
    if len(numbers) == 1 and limit is None:
        return str(numbers[0])
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run_numbers = [number for _, number in run]
        first, last = run_numbers[0], run_numbers[-1]
        parts.append(str(first) if first == last else f"{first}-{last}")
    return f"[{','.join(parts)}{'' if limit is None else f'%{limit}'}]"


def _range(part: str) -> Iterator[int]:
    span, _, step = part.partition(":")
    low, dash, high = span.partition("-")
    first, last = _number(low), _number(high)
    if first is None:
        return
    if not dash:
        yield first
    elif last is not None and last < _MOST:
        yield from range(first, last + 1, max(1, _number(step) or 1))


def _number(text: str) -> int | None:
    """A number of at most ten digits: Python refuses to read very long ones, and Slurm has none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
