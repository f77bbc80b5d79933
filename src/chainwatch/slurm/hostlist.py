"""Lists of node names in Slurm's brackets: `n[01-03,07],gpu-r[1-2]c[04-05]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product

_NO_NODES = frozenset({"", "(null)", "none assigned", "none", "n/a", "unknown", "(none)"})
_PART = re.compile(r"\[([^\]]*)\]")
_LAST_NUMBER = re.compile(r"^(.*?)(\d+)(\D*)$")
_MOST = 200_000


def expand(text: str) -> tuple[str, ...]:
    """The node names of a hostlist in its own order; empty for `None assigned`, `(null)`, `N/A` and the like.

    Zero padding is kept (`n[08-10]` is n08, n09, n10). Several brackets multiply. A range that is no range is taken as
    it stands, and one name stands for itself. Raises `ValueError` where the list would have more than 200,000 names.
    """
    if text.strip().lower() in _NO_NODES:
        return ()
    names: list[str] = []
    for word in _split(text.strip()):
        names.extend(_expand_word(word))
        if len(names) > _MOST:
            raise ValueError(f"the node list {text[:60]}… has more than {_MOST} names")
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The shortest usual form of these node names, sorted: n1, n2, n3 and x give `n[1-3],x`. Doubles are dropped."""
    shaped: dict[tuple[str, str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        found = _LAST_NUMBER.match(name)
        if not found:
            plain.append(name)
            continue
        prefix, digits, suffix = found.groups()
        width = len(digits) if digits.startswith("0") else 0
        shaped.setdefault((prefix, suffix, width), []).append(int(digits))
    # Names of full width without a leading zero (n10) belong to the padded ones beside them (n09).
    for (prefix, suffix, width), numbers in sorted(shaped.items(), key=lambda item: -item[0][2]):
        if width == 0 or (prefix, suffix, 0) not in shaped:
            continue
        bare = shaped[prefix, suffix, 0]
        fitting = [number for number in bare if len(str(number)) == width]
        numbers.extend(fitting)
        bare[:] = [number for number in bare if len(str(number)) != width]
    words = [
        f"{prefix}{_ranges(sorted(numbers), width)}{suffix}"
        for (prefix, suffix, width), numbers in sorted(shaped.items())
        if numbers
    ]
    return ",".join(sorted([*words, *plain]))


def _ranges(numbers: Sequence[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:0{width}d}"
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run_numbers = [number for _, number in run]
        first, last = run_numbers[0], run_numbers[-1]
        parts.append(f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}")
    return f"[{','.join(parts)}]"


def _split(text: str) -> Iterator[str]:
    """Words between commas that stand outside of brackets."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _expand_word(word: str) -> Iterator[str]:
    word = word.strip()
    if not word:
        return
    pieces = _PART.split(word)
    choices = [[piece] if i % 2 == 0 else list(_numbers(piece)) for i, piece in enumerate(pieces)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > _MOST:
        raise ValueError(f"the node list {word[:60]}… has more than {_MOST} names")
    for combination in product(*choices):
        yield "".join(combination)


def _numbers(inside: str) -> Iterator[str]:
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        if dash and first.isdigit() and last.isdigit() and int(first) <= int(last):
            if int(last) - int(first) > _MOST:
                raise ValueError(f"the node list […{part}…] has more than {_MOST} names")
            for number in range(int(first), int(last) + 1):
                yield f"{number:0{len(first)}d}"
        else:
            yield part
