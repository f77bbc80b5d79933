"""Tables that stay readable: a row is a line, on a terminal of 80 columns too. What is cut, `explain` and --json have."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

_GAP = 2
_LEAST = 24
"""A sentence keeps so many characters as long as other columns can give way."""
_NAME = 8
"""A name is folded into lines of so many characters at least."""
MOST = 60
"""Characters of a sentence in a cell; a terminal may show fewer."""


def short(sentence: str, most: int = MOST) -> str:
    """The first clause of a sentence, cut where it is long."""
    first = " ".join(sentence.split()).partition("; ")[0]
    return first if len(first) <= most else first[: most - 1].rstrip(" ,:(") + "…"


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    optional: Sequence[str] = (),
    measure: Callable[[str], int] = len,
) -> tuple[list[str], list[list[str]]]:
    """The table as it fits into `width`: columns of `optional` go one after another, and the last column is cut.

    A long first cell is folded, for one long name would take the last column from every row; a name is never cut, since
    people copy it. Where there is no room for even the last column's head, columns before it go, and the second is cut.
    """
    kept = list(range(len(columns)))
    gives_way = [columns.index(name) for name in optional if name in columns[:-1]]
    natural = [max(measure(text) for text in (columns[i], *(row[i] for row in rows))) for i in kept]

    def others() -> int:
        return sum(natural[i] + _GAP for i in kept[:-1])

    while gives_way and others() + min(natural[-1], _LEAST) > width:
        kept.remove(gives_way.pop(0))
    wanting = others() + min(natural[-1], _LEAST) - width
    if wanting > 0:
        natural[0] = min(natural[0], max(natural[0] - wanting, width // 3, _NAME))
    head = measure(columns[-1])
    while len(kept) > 3 and others() + head > width:
        kept.pop(-2)
    if len(kept) > 2 and others() + head > width:
        natural[kept[1]] = max(measure(columns[kept[1]]), natural[kept[1]] - (others() + head - width))
    room = max(1, width - others())
    cut = [
        [_folded(row[0], natural[0], measure)]
        + [_cut(row[i], natural[i], measure) for i in kept[1:-1]]
        + [_cut(row[-1], room, measure)]
        for row in rows
    ]
    return [columns[i] for i in kept], cut


def _folded(text: str, room: int, measure: Callable[[str], int]) -> str:
    """The text in lines of that width."""
    lines, line = [], ""
    for letter in text:
        if line and measure(line + letter) > room:
            lines.append(line)
            line = ""
        line += letter
    return "\n".join([*lines, line])


def _cut(text: str, room: int, measure: Callable[[str], int]) -> str:
    if measure(text) <= room:
        return text
    while text and measure(text) > room - 1:
        text = text[:-1]
    return text + "…"


def show(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
) -> None:
    """A table on stdout: on a terminal as wide as that, in colours, in a pipe plain and with every column."""
    if not sys.stdout.isatty():
        widths = [max(len(str(r[i])) for r in [columns, *rows]) for i in range(len(columns))]
        for row in [columns, *rows]:
            print("  ".join(str(c).replace("\n", " ").ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    size = shutil.get_terminal_size()
    plain = [[str(cell).replace("\n", " ") for cell in row] for row in rows]
    columns, plain = fitted(columns, plain, size.columns, optional, cell_len)
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=True)
    for row in plain:
        shown.add_row(*(Text(c, style=(styles or {}).get(c.partition(" (")[0], "")) for c in row))
    Console(width=size.columns, height=size.lines).print(shown)
