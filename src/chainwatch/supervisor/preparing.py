"""The whole sbatch call of the next job: script, environment and options put together, nothing submitted yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from chainwatch.actions import beforehand, compose, kept, resume_file
from chainwatch.actions.image import container_image
from chainwatch.actions.tag import Tag, new_token, short_instance
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, History, Resubmit, Stop
from chainwatch.slurm.backend import Submission
from chainwatch.slurm.environment import EnvironmentUnusable
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.supervisor import reading
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place, Silent


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission that may be written down as an intent."""

    submission: Submission
    token: str
    digest: str
    """Of the batch script."""
    pinned: str
    """Path of the kept copy; empty where the script is live."""
    avoid: tuple[str, ...]
    """Checkpoints that the job must not pick."""
    image: str
    """The container image that the job is known to run in; empty where none is named."""


def prepare(
    house: House,
    record: ChainRecord,
    settings: Chain,
    place: Place,
    past: History,
    decision: Resubmit,
    previous: str | None,
) -> Prepared | Stop | Silent:
    """The next job as decided. `previous`: the job that must be gone before it starts. Stop: a person must mend it."""
    last = past.attempts[-1] if past.attempts else None
    pinned = settings.script == "pinned"
    script = record.pinned_script if pinned and record.pinned_script else str(settings.batch)
    text = house.readers.work(f"script:{script}", reading.script, house.read_script, script)
    if isinstance(text, Silent):
        return text
    if isinstance(text, str):
        problem = f"the batch script {settings.batch} cannot be read: {text}"
        return Stop(problem, f"bring it back, then `chainwatch {again(last)} {record.name}`.")
    if pinned and not record.pinned_script:
        script = str(kept.keep(house.state, record.name, text))
    try:
        environment = house.environment(record, settings)
    except EnvironmentUnusable as e:
        return Stop(
            f"the job's environment cannot be made: {e}", f"mend it, then `chainwatch {again(last)} {record.name}`."
        )
    tag = Tag(short_instance(house.store.instance), record.name, new_token())
    array = record.facts.get("array")
    task = array.get("task") if isinstance(array, Mapping) else None
    shown = text.decode(errors="replace")
    split = record.origin is Origin.SBATCH and last is None  # `chainwatch sbatch` makes a chain of each task
    why = beforehand.parallel(beforehand.submitted_with(settings, shown, "array", decision.extra))
    if why and task is None and not split:
        return Stop(why, f"mend it, then `chainwatch {again(last)} {record.name}`.")
    order = compose.Order(
        tag=tag,
        script=script,
        script_text=shown,
        directory=place.directory,
        environment=dict(environment),
        resume=decision.resume,
        resume_file=str(resume_file.path_of(house.state, record.name)),
        exclude=decision.exclude,
        extra=decision.extra,
        avoid=decision.avoid,
        previous=previous,
        singleton=record.origin is Origin.CONFIG and compose.alone_by_name(settings, shown, record.name),
        first=last is None or last.job.start is None,
        umask=int(record.facts.get("umask", 0o022)),
        array_task=None if task is None else str(task),
        state=str(house.state),
        job_name=os.path.basename(str(settings.batch)) if script != str(settings.batch) else None,
    )
    composed = compose.compose(settings, order)
    return Prepared(
        composed,
        tag.token,
        compose.digest(text),
        script if pinned else "",
        order.avoid,
        container_image(shown, [*settings.sbatch, *decision.extra], dict(environment)),
    )


def again(last: Attempt | None) -> str:
    """The command that tries once more: a chain without a job is submitted, one with jobs goes on."""
    return "submit" if last is None else "retry"
