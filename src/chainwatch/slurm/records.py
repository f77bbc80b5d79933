"""Texts of many records whose fields may contain anything.

Slurm's clients neither quote nor escape. A separator that a job's name can contain would let one user's job name break
or forge rows, so each call brings a fresh one: `\\x1f` and a few random characters between fields, `\\x1e` and the same
at the end of a record. Names with pipes, newlines or control characters then are just names.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chainwatch.slurm.backend import NoInformation


@dataclass(frozen=True, slots=True)
class Marks:
    """The separators of one call."""

    field: str
    record: str

    @staticmethod
    def fresh() -> Marks:
        nonce = secrets.token_hex(2)
        return Marks(f"\x1f{nonce}", f"\x1e{nonce}")


def rows(text: str, marks: Marks, columns: int, client: str) -> Iterator[list[str]]:
    """Records that end in `marks.record` and a newline, header first, each as its fields.

    Raises `NoInformation` where a record has another number of fields, or the text does not end with a whole record: a
    cut answer must not be taken for a shorter queue. Lines before the header (a wrapper's banner, the `CLUSTER:` line
    of -M) are passed over.
    """
    whole, end, rest = text.rpartition(f"{marks.record}\n")
    if not end:
        raise NoInformation(f"{client} gave no header: this is not an answer")
    if rest.strip():
        raise NoInformation(f"{client}'s answer was cut within a record: {rest.strip()[:80]!r}")
    for number, record in enumerate(whole.split(f"{marks.record}\n")):
        if number == 0:
            record = record.rpartition("\n")[2]
        fields = record.split(marks.field)
        if len(fields) != columns:
            raise NoInformation(f"{client} gave {len(fields)} fields where {columns} were asked for: {record[:80]!r}")
        yield fields


def running_rows(text: str, field: str, columns: int, client: str) -> Iterator[list[str]]:
    """Records in which each field, also the last, is followed by `field`, and the last one also by a newline.

    This is what `sacct --parsable --delimiter` prints. Raises `NoInformation` as `rows` does.
    """
    parts = text.split(field)
    if parts[-1].strip():
        raise NoInformation(f"{client}'s answer was cut within a record: {parts[-1].strip()[:80]!r}")
    cells = parts[:-1]
    if not cells:
        raise NoInformation(f"{client} gave no header: this is not an answer")
    if len(cells) % columns:
        raise NoInformation(f"{client} gave {len(cells)} fields, which is no multiple of the {columns} asked for")
    for start in range(0, len(cells), columns):
        record = cells[start : start + columns]
        if start == 0:
            record[0] = record[0].rpartition("\n")[2]
        elif not record[0].startswith("\n"):
            raise NoInformation(f"{client}'s records and the fields asked for do not match")
        else:
            record[0] = record[0][1:]
        yield record


def strip_null(text: str) -> str:
    """The value, or nothing for Slurm's ways to print nothing."""
    return "" if text in _NULLS else text


_NULLS: Sequence[str] = ("(null)", "N/A", "n/a", "None", "(None)", "NONE")
