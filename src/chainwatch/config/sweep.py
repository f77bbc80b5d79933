"""`each:` makes one chain of every combination of a matrix, or of every row of a CSV file."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from chainwatch.config.document import Problem, Tree
from chainwatch.config.values import expand_path
from chainwatch.model.plain_file import read_plain

MOST_CHAINS = 10_000
_PLACEHOLDER = re.compile(r"(?<![$\\])\{(\w+)\}")
"""`{lr}`, but neither `${HOME}` nor an escaped brace of a pattern."""
Row = dict[str, str]
"""One chain's values by name."""


def expand(name: str, chain: Tree, folder: Path, problems: list[Problem]) -> list[tuple[str, Tree]]:
    """The chains that `name` stands for: itself, or with `each` one of every row, placeholders filled in everywhere.

    `folder` is where a CSV file is looked for. A placeholder that looks like a misspelt column, and a sweep that is
    used nowhere, are problems: they would make equal runs.
    """
    each = chain.value.get("each")
    if each is None:
        return [(name, chain)]
    rest = chain.with_value({key: value for key, value in chain.value.items() if key != "each"})
    rows = _rows(each, folder, problems)
    if not rows:
        return []
    if len(rows) > MOST_CHAINS:
        problems.append(each.problem(f"makes more than {MOST_CHAINS} chains, the most that a sweep may"))
        return []
    columns = list(rows[0])
    _check_use(name, rest, each, columns, problems)
    unknown = [match[1] for match in _PLACEHOLDER.finditer(name) if match[1] not in columns]
    if unknown:
        problems.append(chain.problem(_not_there(unknown[0], columns)))
        return []
    named = any(match[1] in columns for match in _PLACEHOLDER.finditer(name))
    made = []
    for row in rows:
        own = _fill(name, row, as_name=True)
        if not named and len(rows) > 1:
            own = "-".join([name, *map(_safe, row.values())])
        made.append((own, _filled(rest, row)))
    return made


def _check_use(name: str, chain: Tree, each: Tree, columns: list[str], problems: list[Problem]) -> None:
    used = {match[1] for match in _PLACEHOLDER.finditer(name)}
    for where in chain.scalars():
        for match in _PLACEHOLDER.finditer(where.value) if isinstance(where.value, str) else ():
            used.add(match[1])
            if match[1] not in columns and difflib.get_close_matches(match[1], columns, cutoff=0.7):
                problems.append(where.problem(_not_there(match[1], columns)))
    # A table may well have columns of notes; what is written into a matrix is meant to be used.
    unused = [c for c in columns if c not in used] if "matrix" in each else []
    if unused or not used & set(columns):
        names = ", ".join(f"`{{{c}}}`" for c in unused or columns)
        problems.append(
            each.problem(f"{names} is used nowhere in the chain, so equal runs would start: put it in args")
        )


def _not_there(key: str, columns: list[str]) -> str:
    near = difflib.get_close_matches(key, columns, n=1, cutoff=0.6)
    meant = f"did you mean `{{{near[0]}}}`?" if near else f"there are {', '.join(columns)}"
    return f"`{{{key}}}` is not in `each`; {meant}"


def _rows(each: Tree, folder: Path, problems: list[Problem]) -> list[Row]:
    kind = each.value if isinstance(each.value, dict) else {}
    if set(kind) == {"matrix"}:
        return _matrix(kind["matrix"], problems)
    if set(kind) == {"csv"}:
        return _table(kind["csv"], folder, problems)
    problems.append(each.problem("either `matrix:` (lists of values by name) or `csv:` (a file) is expected"))
    return []


def _matrix(matrix: Tree, problems: list[Problem]) -> list[Row]:
    axes: dict[str, list[str]] = {}
    for key, values in matrix.value.items() if isinstance(matrix.value, dict) else ():
        words = [v.word for v in values.value] if isinstance(values.value, list) else []
        good = [w for w in words if w is not None]
        if not good or len(good) != len(words) or not re.fullmatch(r"\w+", key):
            problems.append(
                values.problem("a name of letters, digits and `_`, and a list of plain values, is expected")
            )
        else:
            axes[key] = good
    if not axes:
        if not problems:
            problems.append(matrix.problem("a list of values for each name is expected"))
        return []
    rows: Iterable[tuple[str, ...]] = itertools.product(*axes.values())
    rows = itertools.islice(rows, MOST_CHAINS + 1)
    return [dict(zip(axes, row, strict=True)) for row in rows]


def _table(spot: Tree, folder: Path, problems: list[Problem]) -> list[Row]:
    def wrong(message: str) -> list[Row]:
        problems.append(spot.problem(message))
        return []

    try:
        path = folder / str(expand_path(spot.plain()))
        text = read_plain(path).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
        columns = [c.strip() for c in reader.fieldnames or ()]
        reader.fieldnames = columns
        bad = [c for c in columns if not re.fullmatch(r"\w+", c)]
        if bad or len(set(columns)) < len(columns):
            said = f"the column {bad[0]!r} cannot stand in braces" if bad else "a column is there twice"
            return wrong(f"{path}: {said}; names of letters, digits and `_` are needed, each once, in the first line")
        rows = []
        for row in reader:
            if "" in row or None in row.values():
                amount = "more" if "" in row else "fewer"
                return wrong(f"{path}:{reader.line_num}: this row has {amount} fields than the header")
            rows.append({k: v.strip() for k, v in row.items()})
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as e:
        what = "is not UTF-8" if isinstance(e, UnicodeDecodeError) else getattr(e, "strerror", None) or e
        return wrong(f"{spot.plain()} cannot be read: {what}")
    return rows or wrong(f"{path} has no rows below its header")


def _safe(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", value)


def _fill(text: str, row: Mapping[str, str], *, as_name: bool = False) -> str:
    """`{key}` of known keys only: `{path}` of an argument template is left for later."""

    def value(match: re.Match[str]) -> str:
        found = row.get(match[1])
        return match[0] if found is None else _safe(found) if as_name else found

    return _PLACEHOLDER.sub(value, text)


def unfinished(tree: Tree, *, more: bool) -> Tree:
    """A copy of a chain's tree that is not whole yet: its placeholders, and with `more` its sections, say so."""
    value = tree.value
    if isinstance(value, dict):
        value = {key: unfinished(one, more=more) for key, one in value.items()}
    elif isinstance(value, list):
        value = [unfinished(one, more=more) for one in value]
    copy = tree.with_value(value)
    copy.word = tree.word
    copy.unfinished = more if isinstance(value, dict) else isinstance(value, str) and bool(_PLACEHOLDER.search(value))
    return copy


def _filled(tree: Tree, row: Mapping[str, str]) -> Tree:
    value = tree.value
    if isinstance(value, dict):
        return tree.with_value({k: _filled(v, row) for k, v in value.items()})
    if isinstance(value, list):
        return tree.with_value([_filled(v, row) for v in value])
    if not isinstance(value, str) or "{" not in value:
        return tree
    filled = tree.with_value(_fill(value, row))
    filled.word = filled.value
    return filled
