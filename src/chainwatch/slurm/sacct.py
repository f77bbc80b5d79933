"""Attempts as accounting recorded them: one sacct call for many ids.

Every row of a requeued id is asked for (`--duplicates`), with its steps, since the job row alone does not say what
happened. Fields differ between releases and one unknown field fails the whole call, so `sacct --helpformat` is read
first. sacct prints the header *before* it asks the database, and can then exit 0 without a row: no row is never "no
job".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source, Step
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.hostlist import expand
from chainwatch.slurm.jobids import parse_job_id
from chainwatch.slurm.records import running_rows, strip_null
from chainwatch.slurm.states import parse_state
from chainwatch.slurm.times import parse_duration, parse_minutes, parse_time
from chainwatch.slurm.tres import count, parse_size

WANTED = (
    "JobIDRaw", "JobID", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End", "Suspended", "TimelimitRaw",
    "Cluster", "AllocCPUS", "AllocTRES", "MaxRSS", "Restarts", "FailedNode", "User", "Partition", "QOS", "Account",
    "NodeList", "Reason", "StdOut", "StdErr", "WorkDir", "JobName", "Comment", "SubmitLine",
)  # fmt: skip
"""In this order; those that a release does not know are left out."""

NEEDED = frozenset({"JobIDRaw", "JobID", "State", "ExitCode", "Submit", "Start", "End"})
CHUNK = 64 * 1024
"""Bytes of ids in one call: far below what a command line may have on any system."""


def known_fields(helpformat: str) -> tuple[str, ...]:
    """Those of `WANTED` that this release's `sacct --helpformat` lists. Raises `NoInformation` where it is no list."""
    listed = {word.lower() for word in helpformat.split()}
    chosen = tuple(name for name in WANTED if name.lower() in listed)
    if not set(chosen) >= NEEDED:
        raise NoInformation("sacct --helpformat gave no list of fields")
    return chosen


def arguments(fields: Sequence[str], mark: str) -> list[str]:
    """sacct's arguments, without what selects the jobs."""
    return [
        "--duplicates",
        "--local",
        "--noconvert",
        "--parsable",
        f"--delimiter={mark}",
        f"--format={','.join(fields)}",
    ]


def chunks(job_ids: Collection[int]) -> Iterator[str]:
    """Ids as comma lists of at most `CHUNK` bytes."""
    batch: list[str] = []
    size = 0
    for job_id in sorted(set(job_ids)):
        word = str(job_id)
        if batch and size + len(word) + 1 > CHUNK:
            yield ",".join(batch)
            batch, size = [], 0
        batch.append(word)
        size += len(word) + 1
    if batch:
        yield ",".join(batch)


def window(since: datetime) -> str:
    """`since` as sacct reads it (the clients run with TZ=UTC)."""
    return f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


@dataclass(slots=True)
class _Open:
    """A job row that is being read, with its steps."""

    row: Mapping[str, str]
    raw: int
    steps: list[Step] = field(default_factory=list)


def parse(text: str, mark: str, fields: Sequence[str], cluster: str) -> tuple[Job, ...]:
    """Attempts of an answer to `arguments`, steps folded in, oldest submission first.

    Rows of other clusters (a federation answers for all) are left out, where a cluster is named. Raises
    `NoInformation` where it is no whole answer.
    """
    opened: list[_Open] = []
    for number, cells in enumerate(running_rows(text, mark, len(fields), "sacct")):
        if number == 0:
            if [cell.lower() for cell in cells] != [name.lower() for name in fields]:
                raise NoInformation(f"sacct gave no header: this is not an answer: {cells[0][:80]!r}")
            continue
        row = dict(zip(fields, cells, strict=True))
        if cluster and row.get("Cluster") and row["Cluster"] != cluster:
            continue
        raw = row["JobIDRaw"]
        if raw.isdigit():
            opened.append(_Open(row, int(raw)))
            continue
        owner, _, name = raw.partition(".")
        job = next((o for o in reversed(opened) if str(o.raw) == owner), None)
        if job is None or not name:
            raise NoInformation(f"sacct gave a step without its job: {raw[:80]!r}")
        job.steps.append(_step(name, row))
    jobs = [_job(o, cluster) for o in opened]
    return tuple(sorted(jobs, key=lambda job: (job.attempt.submitted, job.attempt.job_id)))


def _job(opened: _Open, cluster: str) -> Job:
    row = opened.row
    submitted = parse_time(row["Submit"])
    if submitted is None:
        raise NoInformation(f"sacct gave a job without submit time: {row['JobIDRaw']}")
    state = parse_state(row["State"])
    over = state.state.terminal or state.state is JobState.REQUEUED
    shown = parse_job_id(row["JobID"])
    nodes = expand(row.get("NodeList", ""))
    cpus, restarts = row.get("AllocCPUS", ""), row.get("Restarts", "")
    suspended = parse_duration(row.get("Suspended", ""))
    line = row.get("SubmitLine", "")
    is_array = shown is not None and shown.task is not None
    # slurmdbd got the end of the job but not (yet) its beginning, and makes up a name and a QOS.
    halved = row.get("QOS") == "Unknown" and not row.get("Partition")
    return Job(
        attempt=AttemptId(cluster, opened.raw, submitted),
        shown_id=row["JobID"],
        state=state.state,
        source=Source.ACCOUNTING,
        raw_state=row["State"],
        reason=strip_null(row.get("Reason", "")),
        name="" if halved else row.get("JobName", ""),
        user=row.get("User", ""),
        partition=row.get("Partition", ""),
        qos="" if halved else row.get("QOS", ""),
        account=row.get("Account", ""),
        comment=row.get("Comment", ""),
        array_job_id=shown.base if shown and is_array else None,
        array_task=shown.task if shown else None,
        array_limit=(shown.limit or array_limit(line)) if shown and is_array else None,
        het_job_id=shown.base if shown and shown.component is not None else None,
        start=parse_time(row["Start"]) if nodes or not over else None,  # cancelled while pending: it never started
        end=parse_time(row["End"]) if over else None,
        suspended_for=suspended or None,
        time_limit=parse_minutes(row.get("TimelimitRaw", "")),
        nodes=nodes,
        exit=exit_code(row["ExitCode"]) if over else None,
        derived_exit=exit_code(row.get("DerivedExitCode", "")) if over else None,
        cancelled_by=state.cancelled_by,
        restarts=int(restarts) if restarts.isdigit() else None,
        failed_node=strip_null(row.get("FailedNode", "")) or None,
        directory=row.get("WorkDir", ""),
        submit_line=line,
        stdout=row.get("StdOut", ""),
        stderr=row.get("StdErr", ""),
        gpus=count(row.get("AllocTRES", ""), "gres/gpu"),
        cpus=int(cpus) if cpus.isdigit() and int(cpus) else None,
        steps=tuple(opened.steps),
    )


def _step(name: str, row: Mapping[str, str]) -> Step:
    state = parse_state(row["State"])
    return Step(
        name=name,
        state=state.state,
        exit=exit_code(row["ExitCode"]) if state.state.terminal else None,
        label=row.get("JobName", ""),
        start=parse_time(row["Start"]),
        end=parse_time(row["End"]) if state.state.terminal else None,
        nodes=expand(row.get("NodeList", "")),
        max_rss=parse_size(row.get("MaxRSS", "")),
    )


def exit_code(text: str) -> ExitCode | None:
    """`code:signal`; None where Slurm prints nothing (the `.batch` of a job whose node died)."""
    code, colon, sig = text.strip().partition(":")
    return ExitCode(int(code), int(sig)) if colon and code.isdigit() and sig.isdigit() else None


def array_limit(submit_line: str) -> int | None:
    """The `%N` of an `--array` option on an sbatch line; None where there is none (it may stand in the script)."""
    try:
        words = shlex.split(submit_line)
    except ValueError:
        words = submit_line.split()
    found = None
    for word, following in pairwise([*words, ""]):
        if word in ("-a", "--array"):
            value = following
        elif word.startswith("--array="):
            value = word.removeprefix("--array=")
        elif re.match(r"-a\d", word):
            value = word[2:]
        else:
            continue
        number = value.partition("%")[2]
        found = int(number) if number.isdigit() and int(number) > 0 else None
    return found
