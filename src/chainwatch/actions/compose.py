"""One sbatch call for the next job of a chain: pure, so that what will be submitted can be shown and tested."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chainwatch.actions import options as sbatch
from chainwatch.actions.tag import Tag, join
from chainwatch.config.models import Chain, HandOver
from chainwatch.job.choose import mapped
from chainwatch.model.chain import FromCheckpoint, FromScratch, Resume
from chainwatch.slurm.backend import Submission
from chainwatch.slurm.hostlist import compress, expand

RESUME_FILE = "CHAINWATCH_RESUME_FILE"
AVOID = "CHAINWATCH_AVOID"
CHAIN = "CHAINWATCH_CHAIN"
CHECKPOINTS = "CHAINWATCH_CHECKPOINTS"
FORMAT = "CHAINWATCH_FORMAT"
RULE = "CHAINWATCH_RULE"
PATHS = "CHAINWATCH_PATHS"
JOB_FILES = "CHAINWATCH_DIR"
STATE = "CHAINWATCH_STATE"
FROM_SCRATCH = "CHAINWATCH_FROM_SCRATCH"


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
    previous: str | None = None
    """The job before, as people call it (`123`, `123_4`: the raw id of an array's last task means the whole array), if
    the controller still lists it: the next one starts only after it is gone. `afterany` on a job that the controller has
    forgotten is taken as met by every release, so it would hold nothing, or wait for a stranger's job of the same id."""
    singleton: bool = False
    """The job name is unique to the chain, so that Slurm itself keeps two of them apart."""
    first: bool = False
    """First job of the chain: the user's own dependency still holds."""
    array_task: str | None = None
    job_name: str | None = None
    """The name that Slurm gives a job by itself, where the script that is handed to it bears another one."""
    umask: int = 0o022
    state: str = ""
    """The state directory, for commands of chainwatch in the job."""


def compose(settings: Chain, order: Order) -> Submission:
    """The whole sbatch call. Options of later origin win: script, chain, recovery, chainwatch's own.

    The user's comment and dependency are joined with ours, since a second `--comment` or `--dependency` replaces the
    first one, also that of the script's #SBATCH line.
    """
    given, *others = sbatch.components(sbatch.parse(sbatch.leading(settings.sbatch, *order.extra)).options)
    in_script = sbatch.script_options(order.script_text)
    words = list(sbatch.without(given, "comment", "dependency", "exclude", "export", "parsable", "quiet"))
    words.append(f"--comment={join(_effective(in_script, given, 'comment'), order.tag)}")
    dependency = _dependency(order, _effective(in_script, given, "dependency"))
    if dependency is not None:
        words.append(f"--dependency={dependency}")
    exclude = _joined(_effective(in_script, given, "exclude"), order.exclude)
    if exclude:
        words.append(f"--exclude={exclude}")
    words += _other_nodes(in_script, given, order)
    if order.array_task is not None:
        words.append(f"--array={order.array_task}")
    if order.job_name is not None and _effective(in_script, given, "job-name") is None:
        words.append(f"--job-name={order.job_name}")
    environment = dict(order.environment)
    ours = {CHAIN: order.tag.chain, RESUME_FILE: order.resume_file}
    ours |= {STATE: order.state} if order.state else {}
    ours |= for_job_side(settings, order.directory)
    for stale in (AVOID, CHECKPOINTS, FORMAT, RULE, PATHS, FROM_SCRATCH):
        environment.pop(stale, None)
    if order.avoid:
        ours[AVOID] = ":".join(order.avoid)
    args = list(settings.args)
    where = settings.checkpoints
    if where is not None:
        path = handed_over(settings, resume_path(order.resume)) or ""
        if where.hand_over is HandOver.VARIABLE:
            environment.pop(where.variable, None)
            if path:
                ours[where.variable] = path
        elif where.hand_over is HandOver.ARGUMENT and isinstance(order.resume, FromCheckpoint):
            step = order.resume.checkpoint.step
            args.append(where.argument.format(path=path, step="" if step is None else step))
    environment |= ours
    export = _exporting(_effective(in_script, given, "export"), ours)
    if export is not None:
        words.append(f"--export={export}")
    words += _other_components(others, order.exclude)
    return Submission(
        script=order.script,
        args=tuple(args),
        options=tuple(words),
        directory=order.directory,
        environment=tuple(sorted(environment.items())),
        umask=order.umask,
    )


def _other_components(others: Sequence[tuple[sbatch.Option, ...]], exclude: tuple[str, ...]) -> list[str]:
    """The further components of a het job. What we say of the first one holds for them too, but for nodes to keep away
    from where they name some themselves."""
    words: list[str] = []
    for given in others:
        words += [
            sbatch.NEXT,
            *sbatch.without(given, "comment", "dependency", "exclude", "export", "parsable", "quiet"),
        ]
        own = sbatch.last(given, "exclude")
        if own is not None:
            words.append(f"--exclude={_joined(own, exclude)}")
    return words


def for_job_side(settings: Chain, directory: str) -> dict[str, str]:
    """What `chainwatch exec` needs to know without being told on its command line."""
    told = {JOB_FILES: os.path.join(directory, ".chainwatch")}
    where = settings.checkpoints
    if where is not None:
        told[CHECKPOINTS] = os.path.join(directory, where.directory)
        told[FROM_SCRATCH] = where.from_scratch
        if where.format != "auto":
            told[FORMAT] = where.format
        if where.custom is not None:
            told[RULE] = json.dumps(where.custom)
        if where.paths:
            told[PATHS] = json.dumps(where.paths)
    return told


def job_name(settings: Chain, script_text: str) -> str | None:
    """The job name that Slurm will use, where options name one (otherwise it is the script's file name)."""
    given = sbatch.parse(settings.sbatch).options
    return _effective(sbatch.script_options(script_text), given, "job-name")


def alone_by_name(settings: Chain, script_text: str, name: str) -> bool:
    """`singleton` keeps two jobs of this chain apart: its job name is the chain's own.

    Not of a het job: its components bear one name, and each would wait for the other for ever (seen on 22.05).
    """
    het = sbatch.NEXT in settings.sbatch or sbatch.is_het(script_text)
    return job_name(settings, script_text) == name and not het


def digest(script: bytes) -> str:
    """What identifies a batch script: `sha256:` and the hex digest of its bytes."""
    return "sha256:" + hashlib.sha256(script).hexdigest()


def resume_path(resume: Resume) -> str | None:
    """The checkpoint's path on the host, None for a start from scratch."""
    return None if isinstance(resume, FromScratch) else resume.checkpoint.path


def handed_over(settings: Chain, path: str | None) -> str | None:
    """The path as the program sees it, inside its container where it runs in one."""
    return path if path is None or settings.checkpoints is None else mapped(path, settings.checkpoints.paths)


def _effective(script: tuple[sbatch.Option, ...], given: tuple[sbatch.Option, ...], name: str) -> str | None:
    on_line = sbatch.last(given, name)
    return on_line if on_line is not None else sbatch.last(script, name)


def _dependency(order: Order, own: str | None) -> str | None:
    """Joined by commas, which means that all must hold.

    Once the first job has started, the user's own dependency was satisfied, and the job that it names may since be
    forgotten: sbatch then refuses `afterok` and `afternotok` (from 23.02) or takes them as met (22.05). `singleton` alone
    names no job, and so holds for every job of the chain. An own alternative (`?`) cannot be joined and is kept.
    """
    if order.first and own and "?" in own:
        return own
    wanted = own.split(",") if own and "?" not in own else []
    parts = [p for p in wanted if order.first or p == "singleton"]
    if order.previous is not None:
        parts.append(f"afterany:{order.previous}")
    if order.singleton and "singleton" not in parts:
        parts.append("singleton")
    if parts:
        return ",".join(parts)
    return "" if own else None


def _exporting(own: str | None, ours: Mapping[str, str]) -> str | None:
    """The user's own `--export` with our variables in it, which `NONE` and a list would drop. A list behaves as NONE
    does otherwise: both load the user's login environment (sbatch.c, `env_merge_filter`)."""
    if own is None or own.upper() in {"ALL", "NIL"}:
        return own
    names = [] if own.upper() == "NONE" else [own]
    return ",".join([*names, *ours])


def _other_nodes(script: tuple[sbatch.Option, ...], given: tuple[sbatch.Option, ...], order: Order) -> list[str]:
    """The user's own --nodelist without the nodes that are excluded: sbatch refuses a node that is in both (`Invalid node
    name specified`, 22.05). An empty one turns it off. As many nodes are asked for as it named."""
    own = expand(_effective(script, given, "nodelist") or "")
    left = [node for node in own if node not in order.exclude]
    if len(left) == len(own) or sbatch.is_het(order.script_text):
        return []
    as_many = [] if _effective(script, given, "nodes") is not None else [f"--nodes={len(own)}"]
    return [f"--nodelist={compress(left)}", *as_many]


def _joined(own: str | None, nodes: tuple[str, ...]) -> str:
    return ",".join(x for x in ([own] if own else []) + list(nodes))
