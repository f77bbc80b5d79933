"""What Slurm knows of one job that ended, whoever submitted it, and where its logs lie."""

from __future__ import annotations

import pwd
from dataclasses import dataclass, replace

from chainwatch.model.job import Job, Node, Source
from chainwatch.slurm import CliBackend, NoInformation
from chainwatch.slurm.jobids import ShownId, parse_job_id


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


def facts_of(text: str, cluster: str = "") -> JobFacts:
    """The newest attempt of the job that a person calls `text`. Raises `NotFound`, with a sentence."""
    shown = parse_job_id(text)
    if shown is None:
        raise NotFound(f"{text!r} is no job id; write 123, 123_4 for an array task, 123+1 for a het job component")
    backend = CliBackend(cluster or "cluster", by_clusters_option=bool(cluster))
    problems: list[str] = []
    sources: set[Source] = set()
    remembered = recorded = None
    try:
        remembered = backend.job(shown.base) if shown.task is None and shown.component is None else None
        sources.add(Source.CONTROLLER)
    except NoInformation as error:
        problems.append(str(error))
    try:
        recorded = _newest(backend, shown, text)
        sources.add(Source.ACCOUNTING)
    except NoInformation as error:
        problems.append(str(error))
    job = _merged(recorded, remembered)
    if job is None:
        why = f" ({'; '.join(problems)})" if problems else ""
        raise NotFound(f"Slurm knows no job {text}{why}; is it the right cluster?")
    nodes: tuple[Node, ...] = ()
    if job.nodes:
        try:
            nodes = tuple(backend.nodes(job.nodes))
            sources.add(Source.NODES)
        except NoInformation as error:
            problems.append(str(error))
    return JobFacts(job, frozenset(sources), nodes, log_paths(job), _uid(job.user))


def log_paths(job: Job) -> tuple[str, ...]:
    """Where Slurm wrote the job's output and errors, each file once; other files are left to `--log`."""
    named = [path for path in (job.stdout, job.stderr) if path and path != "/dev/null" and "%" not in path]
    if not named and job.directory:
        named = [f"{job.directory}/slurm-{job.shown_id or job.job_id}.out"]
    return tuple(dict.fromkeys(named))


def _newest(backend: CliBackend, shown: ShownId, text: str) -> Job | None:
    wanted = text.strip().partition(".")[0]
    if shown.task is None and shown.component is None:
        rows = backend.accounting([shown.base])
        return rows[-1] if rows else None
    rows = [job for job in backend.accounting([shown.base]) if job.shown_id == wanted]
    return rows[-1] if rows else None


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
