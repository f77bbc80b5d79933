"""One row of the matrix: what is tested, and what came of it; as JSON between processes and in the repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """What a row is about, before anything was run."""

    name: str
    """Stable: `24.11-cli`."""
    release: str
    """The Slurm that is expected: `24.11`."""
    backend: str
    """`cli`, `pyslurm` or `simulated`."""
    suite: str = ""
    """The Debian suite that the release comes from; empty: this machine's own Slurm, or none at all."""
    site: str = ""
    """What is special about the cluster: `BARE`, or `BY_OPTION` (reached from another one)."""


BARE, BY_OPTION = "without accounting", "by -M"
PLANS = (
    Plan("22.05-cli", "22.05", "cli"),
    Plan("22.05-cli-by-M", "22.05", "cli", site=BY_OPTION),
    Plan("22.05-cli-bare", "22.05", "cli", site=BARE),
    Plan("24.11-cli", "24.11", "cli", "trixie"),
    Plan("26.05-cli", "26.05", "cli", "sid"),
    Plan("26.05-pyslurm", "26.05", "pyslurm", "sid"),
    Plan("simulated", "26.05", "simulated"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """How one case of the contract ended on one row."""

    name: str
    result: str
    """`passed`, `failed` or `skipped`."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one plan."""

    plan: Plan
    version: str = ""
    """The Slurm that really was run, in full; empty where none was."""
    cases: tuple[Case, ...] = ()
    weaker: tuple[str, ...] = ()
    """What this release and this backend give less of, one short sentence each."""
    not_run: str = ""
    """Why nothing was run; empty where it was."""
    cost: str = field(default="", compare=False)
    """What one poll costs, as a sentence; a measurement, so that no two runs agree to the last digit."""
    note: str = ""
    """What a reader should know: the suite has moved on to another release, for example."""

    def count(self, result: str) -> int:
        """How many cases ended so."""
        return sum(case.result == result for case in self.cases)

    @property
    def good(self) -> bool:
        """Nothing failed; a row that could not be run is no failure, but never good news either."""
        return not self.count("failed")


def dump(rows: Sequence[Row]) -> str:
    """Rows as JSON, stable, for people to compare."""
    return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n"


def parse(text: str) -> tuple[Row, ...]:
    """Rows from JSON."""
    rows = []
    for row in json.loads(text):
        row["plan"] = Plan(**row["plan"])
        row["cases"] = tuple(Case(**case) for case in row["cases"])
        row["weaker"] = tuple(row["weaker"])
        rows.append(Row(**row))
    return tuple(rows)


def read(path: Path) -> tuple[Row, ...]:
    """Rows of a file; none where it is not there."""
    return parse(path.read_text()) if path.exists() else ()
