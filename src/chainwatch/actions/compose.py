"""One sbatch call for the next job of a chain: pure, so that what will be submitted can be shown and tested."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from chainwatch.actions import options as sbatch
from chainwatch.actions.tag import Tag, join
from chainwatch.config.models import Chain, HandOver
from chainwatch.model.chain import FromCheckpoint, FromScratch, Resume
from chainwatch.slurm.backend import Submission

RESUME_FILE = "CHAINWATCH_RESUME_FILE"
AVOID = "CHAINWATCH_AVOID"
CHAIN = "CHAINWATCH_CHAIN"


@dataclass(frozen=True, slots=True)
class Order:
    """What goes into one submission, beside the chain's own settings."""

    tag: Tag
    script: str
    """Absolute path of the script to hand to sbatch (the kept copy, for a pinned script)."""
    script_text: str
    directory: str
    environment: Mapping[str, str]
    """The job's environment, already freed of what is the daemon's."""
    resume: Resume
    resume_file: str
    exclude: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    """Checkpoints that `chainwatch latest` must not pick in this job."""
    previous_id: int | None = None
    """The job before, if the controller still remembers it: the next one starts only after it is gone."""
    singleton: bool = False
    """The job name is unique to the chain, so that Slurm itself keeps two of them apart."""
    first: bool = False
    """First job of the chain: the user's own dependency still holds."""
    array_task: str | None = None
    umask: int = 0o022
    clusters: str | None = None


def compose(settings: Chain, order: Order) -> Submission:
    """The whole sbatch call. Options of later origin win: script, chain, recovery, chainwatch's own.

    The user's comment and dependency are joined with ours, since a second `--comment` or `--dependency` replaces the
    first one, also that of the script's #SBATCH line.
    """
    given = sbatch.parse([*settings.sbatch, *order.extra]).options
    in_script = sbatch.script_options(order.script_text)
    words = list(sbatch.without(given, "comment", "dependency", "exclude", "parsable"))
    words.append(f"--comment={join(_effective(in_script, given, 'comment'), order.tag)}")
    dependency = _dependency(order, _effective(in_script, given, "dependency"))
    if dependency is not None:
        words.append(f"--dependency={dependency}")
    exclude = _joined(_effective(in_script, given, "exclude"), order.exclude)
    if exclude:
        words.append(f"--exclude={exclude}")
    if order.array_task is not None:
        words.append(f"--array={order.array_task}")
    environment = dict(order.environment)
    environment[CHAIN] = order.tag.chain
    environment[RESUME_FILE] = order.resume_file
    environment.pop(AVOID, None)
    if order.avoid:
        environment[AVOID] = ":".join(order.avoid)
    args = list(settings.args)
    where = settings.checkpoints
    if where is not None:
        path = order.resume.checkpoint.path if isinstance(order.resume, FromCheckpoint) else ""
        if where.hand_over is HandOver.VARIABLE:
            environment.pop(where.variable, None)
            if path:
                environment[where.variable] = path
        elif where.hand_over is HandOver.ARGUMENT and isinstance(order.resume, FromCheckpoint):
            step = order.resume.checkpoint.step
            args.append(where.argument.format(path=path, step="" if step is None else step))
    return Submission(
        script=order.script,
        args=tuple(args),
        options=tuple(words),
        directory=order.directory,
        environment=tuple(sorted(environment.items())),
        umask=order.umask,
    )


def job_name(settings: Chain, script_text: str) -> str | None:
    """The job name that Slurm will use, where options name one (otherwise it is the script's file name)."""
    given = sbatch.parse(settings.sbatch).options
    return _effective(sbatch.script_options(script_text), given, "job-name")


def digest(script: bytes) -> str:
    """What identifies a batch script: `sha256:` and the hex digest of its bytes."""
    return "sha256:" + hashlib.sha256(script).hexdigest()


def resume_path(resume: Resume) -> str | None:
    """The path handed over, None for a start from scratch."""
    return None if isinstance(resume, FromScratch) else resume.checkpoint.path


def _effective(script: tuple[sbatch.Option, ...], given: tuple[sbatch.Option, ...], name: str) -> str | None:
    on_line = sbatch.last(given, name)
    return on_line if on_line is not None else sbatch.last(script, name)


def _dependency(order: Order, own: str | None) -> str | None:
    """Joined by commas, which means that all must hold.

    Once the first job has started, the user's own dependency was satisfied; its predecessor may since be purged, and
    sbatch refuses a dependency on a job that nobody remembers. An own alternative (`?`) cannot be joined and is kept.
    """
    if order.first and own and "?" in own:
        return own
    parts = [own] if order.first and own else []
    if order.previous_id is not None:
        parts.append(f"afterany:{order.previous_id}")
    if order.singleton and (own is None or "singleton" not in parts):
        parts.append("singleton")
    if parts:
        return ",".join(parts)
    return "" if own else None


def _joined(own: str | None, nodes: tuple[str, ...]) -> str:
    return ",".join(x for x in ([own] if own else []) + list(nodes))
