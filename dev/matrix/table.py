"""The matrix as people see it: on the terminal, and as the block of the README between its two markers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dev.matrix.row import Row

BEGIN, END = "<!-- matrix: begin (written by `make test-matrix`) -->", "<!-- matrix: end -->"
_BLOCK = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def terminal(rows: Sequence[Row]) -> str:
    """The table with every failure and every skip below it: nothing is left out silently."""
    lines = [f"{'Slurm':<28} {'backend':<10} {'passed':>6} {'failed':>6} {'skipped':>7}"]
    for row in rows:
        what = _name(row)
        if row.not_run:
            lines.append(f"{what:<28} {row.plan.backend:<10} NOT RUN: {row.not_run}")
            continue
        numbers = [row.count(result) for result in ("passed", "failed", "skipped")]
        lines.append(f"{what:<28} {row.plan.backend:<10} {numbers[0]:>6} {numbers[1]:>6} {numbers[2]:>7}")
    for row in rows:
        lines += [f"{row.plan.name}: {told}" for told in (row.note, row.cost) if told]
        lines += [f"{row.plan.name}: {c.result}: {c.name}: {c.why}" for c in row.cases if c.result != "passed"]
    return "\n".join(lines)


def block(rows: Sequence[Row]) -> str:
    """The README's table with its notes, markers included."""
    notes: dict[str, int] = {}

    def numbers(sentences: Iterable[str]) -> str:
        return ", ".join(str(notes.setdefault(sentence, len(notes) + 1)) for sentence in sentences)

    lines = ["| Slurm | backend | cases of the contract | weaker there |", "| --- | --- | --- | --- |"]
    for row in rows:
        skipped = numbers(dict.fromkeys(f"skipped: {case.why}" for case in row.cases if case.result == "skipped"))
        tested = _tested(row) + (f" ({skipped})" if skipped else "")
        lines.append(f"| {_name(row)} | `{row.plan.backend}` | {tested} | {numbers(row.weaker)} |")
    told = [f"{number}. {sentence}" for sentence, number in notes.items()]
    costs = [f"On Slurm {row.version} {row.cost}." for row in rows if row.cost]
    parts = ["\n".join(lines), "\n".join(told), *costs]
    return "\n".join([BEGIN, "\n\n".join(part for part in parts if part), END])


def put(readme: str, rows: Sequence[Row]) -> str:
    """The README with the block of these rows. Raises ValueError where it has no markers."""
    if not _BLOCK.search(readme):
        raise ValueError("the README has no markers of the matrix")
    return _BLOCK.sub(lambda _: block(rows), readme, count=1)


def _name(row: Row) -> str:
    if row.plan.backend == "simulated":
        return "the simulated cluster"
    return f"{row.version or row.plan.release}{f', {row.plan.site}' if row.plan.site else ''}"


def _tested(row: Row) -> str:
    if row.not_run:
        return f"not run: {row.not_run}"
    counts = [f"{row.count('passed')} passed"]
    counts += [f"{row.count(result)} {result}" for result in ("failed", "skipped") if row.count(result)]
    return ", ".join(counts)
