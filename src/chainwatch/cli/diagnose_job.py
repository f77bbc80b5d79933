"""What Slurm knows of one job that ended, whoever submitted it, and where its logs lie."""

from __future__ import annotations

import glob
import os
import pwd
import shlex
from dataclasses import dataclass, replace

from chainwatch.model.job import Job, Node, Source
from chainwatch.slurm import CliBackend, NoInformation
from chainwatch.slurm.jobids import parse_job_id
from chainwatch.slurm.paths import expand_to_glob, log_paths

_A_TASK = ("%t", "%n", "%N", "%s")
_MOST_LOGS = 64
"""Of a file a task, so many are read."""


class NotFound(Exception):
    """Nothing is known of that job; the message says what was asked."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job, merged over the sources that answered."""

    job: Job
    sources: frozenset[Source]
    nodes: tuple[Node, ...]
    logs: tuple[str, ...]
    user_uid: int | None


def facts_of(text: str, cluster: str = "", backend: CliBackend | None = None) -> JobFacts:
    """The newest attempt of the job that a person calls `text`.

    Raises `NotFound` where Slurm says that there is none, `NoInformation` where it did not answer.
    """
    shown = parse_job_id(text)
    if shown is None:
        hint = "write 123, 123_4 for an array task, 123+1 for a het job component"
        if os.path.isfile(text):
            hint = f"`chainwatch diagnose --log {shlex.quote(text)}` reads that file"
        raise NotFound(f"{text[:40]!r} is no job id; {hint}")
    backend = backend or _of_this_shell(cluster)
    problems: list[str] = []
    sources: set[Source] = set()
    recorded = remembered = None
    try:
        attempts = backend.named(text.strip().partition(".")[0])
        recorded = attempts[-1] if attempts else None
        sources.add(Source.ACCOUNTING)
    except NoInformation as error:
        problems.append(str(error))
    try:
        if recorded is not None or (shown.task is None and shown.component is None):
            remembered = backend.job(recorded.job_id if recorded else shown.base)
            sources.add(Source.CONTROLLER)
    except NoInformation as error:
        problems.append(str(error))
    job = _merged(recorded, remembered)
    if job is None:
        if problems:
            raise NoInformation(f"Slurm gave no full answer on job {text}: {'; '.join(problems)}")
        raise NotFound(f"Slurm knows no job {text}; is it the right cluster?")
    nodes: tuple[Node, ...] = ()
    try:
        nodes = tuple(backend.nodes(job.nodes)) if job.nodes else ()
        sources.add(Source.NODES)
    except NoInformation:
        pass  # the verdict says that sinfo did not answer, where that weakens it
    return JobFacts(job, frozenset(sources), nodes, logs_of(job), _uid(job.user))


def _of_this_shell(cluster: str) -> CliBackend:
    """The cluster of that name, or the one that Slurm's own configuration names: sacct answers for others too."""
    if cluster:
        return CliBackend(cluster, by_clusters_option=True)
    try:
        return CliBackend(CliBackend("").info().name)
    except NoInformation:
        return CliBackend("")  # accounting may answer all the same


def logs_of(job: Job) -> tuple[str, ...]:
    """Where Slurm wrote the job's output and errors, and the files that srun wrote, one a task, beside them."""
    found = list(log_paths(job).distinct)
    for pattern in (job.stdout, job.stderr):
        if any(letter in pattern for letter in _A_TASK):
            found += sorted(glob.glob(expand_to_glob(pattern, job)))[:_MOST_LOGS]
    return tuple(dict.fromkeys(found))


def _merged(recorded: Job | None, remembered: Job | None) -> Job | None:
    if recorded is None or remembered is None:
        return recorded or remembered
    if recorded.attempt == remembered.attempt:
        return recorded.merged(remembered)
    newer = max(recorded, remembered, key=lambda job: job.attempt.submitted)
    if newer is recorded:
        return replace(
            recorded, stdout=recorded.stdout or remembered.stdout, stderr=recorded.stderr or remembered.stderr
        )
    return newer


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid if user else None
    except KeyError:
        return None
