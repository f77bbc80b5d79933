"""Which jobs of the queue belong to which chain. Pure.

Three ways, strongest first: our tag in the job's comment; the id of an attempt that is not over (also under a new submit
time: a requeue) or of a job that we just submitted; and the chain's match rule, for jobs that somebody else submitted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from chainwatch.actions.tag import find
from chainwatch.model.job import Job


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a chain's jobs, for recognising the next one."""

    chain: str
    user: str
    ids: Mapping[int, datetime | None]
    """Raw ids of attempts that are not over, with their submit time (None for a submission that was not seen yet)."""
    tokens: frozenset[str] = frozenset()
    """Tokens of this chain's submissions."""
    array_id: int | None = None
    array_task: str | None = None
    """A task of an array that is one chain a task; None with `array_id`: the whole array is the chain."""
    name: str = ""
    directory: str = ""
    command: str = ""
    rule: str | None = None
    """Parts joined by `+` (`name`, `directory`, `script`, `command`) that must match to adopt a job. None: never."""
    adopt_after: datetime | None = None
    """Only jobs submitted from this second on are adopted by rule (whoever resubmits too may be as quick as we are); also
    one that was over before anybody looked."""
    anew: bool = False
    """It stands in the configuration and has submitted nothing: a live job of ours that bears its name is what a chain of
    that name left that was forgotten, and two jobs of one run must not meet."""


def assign(jobs: Iterable[Job], chains: Sequence[Known], instance: str) -> dict[str, tuple[Job, ...]]:
    """Jobs of the queue by chain, oldest submission first. A job that fits several chains by rule goes to none."""
    by_token = {token: known for known in chains for token in known.tokens}
    by_id: dict[int, list[Known]] = defaultdict(list)
    for known in chains:
        for job_id in known.ids:
            by_id[job_id].append(known)
    by_array: dict[int, list[Known]] = defaultdict(list)
    for known in chains:
        if known.array_id is not None:
            by_array[known.array_id].append(known)
    anew = {known.chain: known for known in chains if known.anew}
    found: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.het_job_id is not None and job.het_job_id != job.job_id:
            continue  # a het job is one job: its leader stands for it
        owner = _owner(job, chains, by_token, by_id, by_array, instance) or _left_by_a_namesake(job, anew, instance)
        if owner is not None:
            found[owner].append(job)
    return {chain: tuple(sorted(js, key=order)) for chain, js in found.items()}


def order(job: Job) -> tuple[datetime, int, int, int]:
    """What was submitted first comes first, and of an array the task of the lower number.

    Raw ids do not tell that: the last task keeps the id of the whole array, which is the lowest of all.
    """
    task = _task(job)
    return job.attempt.submitted, job.array_job_id or job.job_id, task if task >= 0 else sys.maxsize, job.job_id


def missed(records: Iterable[Job], known: Sequence[Job], array_id: int | None, task: str | None) -> tuple[Job, ...]:
    """Tasks of that array (or this one task) that came and went while nobody looked, as accounting has them.

    Only ended ones, and of a whole array only those after the newest that is known: what is past is past.
    """
    if array_id is None:
        return ()
    newest = max((_task(job) for job in known if job.array_job_id == array_id), default=-1)
    ended = [job for job in records if job.array_job_id == array_id and job.state.terminal and _task(job) >= 0]
    mine = [job for job in ended if (_task(job) > newest if task is None else task == job.array_task and newest < 0)]
    return tuple(sorted(mine, key=order))


def _task(job: Job) -> int:
    return int(job.array_task) if job.array_task is not None and job.array_task.isdigit() else -1


def _owner(
    job: Job,
    chains: Sequence[Known],
    by_token: Mapping[str, Known],
    by_id: Mapping[int, list[Known]],
    by_array: Mapping[int, list[Known]],
    instance: str,
) -> str | None:
    tag = find(job.comment)
    if tag is not None and tag.token in by_token and _same_task(job, by_token[tag.token]):
        return by_token[tag.token].chain
    if job.array_job_id is not None:
        for known in by_array.get(job.array_job_id, ()):
            if _same_task(job, known):
                return known.chain
    for known in by_id.get(job.job_id, ()):
        submitted = known.ids[job.job_id]
        if submitted is None or submitted == job.attempt.submitted or _looks_alike(job, known):
            return known.chain
    if tag is not None and tag.instance != instance:
        return None  # another state directory looks after it
    return _by_rule(job, chains)


def _left_by_a_namesake(job: Job, anew: Mapping[str, Known], instance: str) -> str | None:
    tag = find(job.comment)
    if tag is None or tag.instance != instance or job.state.terminal:
        return None
    known = anew.get(tag.chain)
    return known.chain if known is not None and known.user == job.user else None


def _same_task(job: Job, known: Known) -> bool:
    return known.array_task is None or job.array_task == known.array_task


def _looks_alike(job: Job, known: Known) -> bool:
    """The same id under a new submit time is a requeue only if it is the same user's job of the same name: ids are
    reused."""
    return job.user == known.user and (not known.name or job.name == known.name)


def _by_rule(job: Job, chains: Sequence[Known]) -> str | None:
    fitting = [known for known in chains if _fits(job, known)]
    if len(fitting) > 1:
        fitting = [known for known in fitting if known.command and known.command == job.command]
    return fitting[0].chain if len(fitting) == 1 else None


def _fits(job: Job, known: Known) -> bool:
    if known.rule is None or known.array_id is not None or job.user != known.user:
        return False
    if known.adopt_after is not None and job.attempt.submitted < known.adopt_after:
        return False
    parts = {
        "name": (job.name, known.name),
        "directory": (job.directory, known.directory),
        "script": (_script(job.command), _script(known.command)),
        "command": (job.command, known.command),
    }
    return all(parts[p][0] and parts[p][0] == parts[p][1] for p in known.rule.split("+"))


def _script(command: str) -> str:
    return command.split(" ", 1)[0]
