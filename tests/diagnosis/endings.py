"""Real endings of training jobs: reading them, and judging them as the product does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from chainwatch.diagnosis import diagnose
from chainwatch.evidence import LogFile, read_logs
from chainwatch.model.job import AttemptId, Job, Source
from chainwatch.model.verdict import Evidence, Verdict
from chainwatch.slurm.sacct import exit_code
from chainwatch.slurm.states import parse_state


@dataclass(frozen=True)
class Ending:
    """One recorded ending and the answers that are right."""

    id: str
    slurm: dict[str, Any]
    log: str
    cause: str
    retry: str
    causes: frozenset[str]
    retries: frozenset[str]
    culprit: str | None
    roots: tuple[str, ...]
    why: str
    raw: dict[str, Any] = field(repr=False, default_factory=dict)


def endings(place: Path) -> Iterator[Ending]:
    """Every case of a folder, one a file, or of one file that holds a list."""
    if place.is_dir():
        cases = [_read(path) for path in sorted(place.glob("*.yaml"))]
    else:
        cases = _read(place)
    for case in cases:
        expected = case["expected"]
        yield Ending(
            id=case["id"],
            slurm=case["slurm"],
            log=case["log"],
            cause=expected["cause"],
            retry=expected["retry"],
            causes=frozenset([expected["cause"], *expected.get("cause_also", [])]),
            retries=frozenset([expected["retry"], *expected.get("retry_also", [])]),
            culprit=expected.get("culprit_node"),
            roots=tuple(filter(None, [expected.get("root_line"), *expected.get("root_line_also", [])])),
            why=case.get("why", ""),
            raw=case,
        )


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)  # many texts, read by every worker


def judged(ending: Ending, folder: Path) -> Verdict:
    """The verdict on an ending, from a log file as it would lie on disk."""
    path = folder / f"{ending.id}.log"
    path.write_text(ending.log, encoding="utf-8")
    job = job_of(ending.slurm)
    logs = read_logs([LogFile(str(path))], nodes=job.nodes)
    return diagnose(Evidence(job, frozenset({Source.ACCOUNTING, Source.NODES}), logs))


def job_of(facts: dict[str, Any]) -> Job:
    """The job that the recorded Slurm facts describe."""
    state = parse_state(str(facts["state"]))
    return Job(
        attempt=AttemptId("c", 1, datetime(2026, 1, 1, tzinfo=UTC)),
        shown_id="1",
        state=state.state,
        source=Source.ACCOUNTING,
        raw_state=str(facts["state"]),
        reason="" if facts.get("reason") in (None, "None") else str(facts["reason"]),
        exit=exit_code(str(facts["exit_code"])),
        nodes=tuple(facts.get("nodes", ())),
        cancelled_by=state.cancelled_by,
    )
