"""Which checkpoint this job resumes from: chosen when it starts, once for all tasks of a step, and handed over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from chainwatch.job.once import once
from chainwatch.job.place import Task
from chainwatch.model.checkpoint import unknown_sentence

if TYPE_CHECKING:
    from chainwatch.checkpoints.formats.custom import Rule

FROM, STEP, FILE = "CHAINWATCH_RESUME_FROM", "CHAINWATCH_RESUME_STEP", "CHAINWATCH_RESUME_FILE"
CHECKPOINTS, FORMAT, AVOID = "CHAINWATCH_CHECKPOINTS", "CHAINWATCH_FORMAT", "CHAINWATCH_AVOID"
RULE, PATHS = "CHAINWATCH_RULE", "CHAINWATCH_PATHS"
CHOSEN = "CHAINWATCH_CHOSEN"
"""Set for what runs below: the choice of this job is made, and a nested call keeps it. It names the job, since a script
that submits its own successor hands its whole environment on."""


class Choice(NamedTuple):
    """What to resume from."""

    path: str
    """As the node sees it; empty: start fresh, no checkpoint exists."""
    step: Optional[int] = None
    said: Tuple[str, ...] = ()
    """Sentences for people: what was passed over, and why."""
    refused: str = ""
    """Why the command must not start: checkpoints exist and none is intact, or they cannot be read."""


def look(directory: str, format: Optional[str] = None, avoid: Sequence[str] = (), rule: str = "") -> Choice:
    """The newest intact checkpoint under `directory`, those to avoid left out. `rule`: of the format custom, as JSON or a
    file with it. Raises ValueError."""
    from chainwatch.checkpoints.verify import Options, check_format, search, unknown_at

    custom = _rule(rule) if rule else None
    if custom is not None:
        format = "custom"
    elif format == "custom":
        raise ValueError("the format custom needs --rule FILE: which files a checkpoint must have")
    else:
        check_format(format)
    try:
        options = Options(format=format, avoid=frozenset(avoid), custom=custom)
        found, passed = search(directory, options)
    except FileNotFoundError:
        return Choice("", said=("no checkpoint under %s yet: a fresh start" % directory,))
    except OSError as error:
        return Choice("", refused="%s cannot be read: %s" % (directory, error.strerror or error))
    newer = [each for each in passed if found is None or (each.step or -1) > (found.step or -1)]
    said = tuple(
        "step %s is passed over, it is %s: %s" % (each.step, each.status.value.replace("_", " "), each.reason)
        for each in newer
    )
    if found is not None:
        return Choice(found.path, found.step, (*said, "resuming from %s" % found.path))
    if passed:
        return Choice(
            "",
            said=said,
            refused="none of %d checkpoints under %s is intact; a person must look" % (len(passed), directory),
        )
    unknown = unknown_at(os.path.abspath(directory), options)
    if unknown:
        advice = "describe them with --rule, or name --format"
        return Choice("", refused="%s: %s" % (unknown_sentence(directory, unknown), advice))
    return Choice("", said=("no checkpoint under %s yet: a fresh start" % directory,))


def _rule(given: str) -> "Rule":
    from chainwatch.checkpoints.formats.custom import Rule

    try:
        return Rule.read(given)
    except OSError as error:
        raise ValueError("%s cannot be read: %s" % (given, error.strerror or error)) from None


def chosen(directory: str, task: Task, run: str, format: Optional[str], avoid: Sequence[str], rule: str = "") -> Choice:
    """As `look`, once for all tasks of a step. In the batch script each call looks anew. Raises NoAnswer, OSError,
    ValueError."""
    if not task.step:
        return look(run, format, avoid, rule)
    answer = once(directory, "choice-%s" % task.step, lambda: _plain(look(run, format, avoid, rule)))
    step = answer.get("step")
    return Choice(
        str(answer.get("path", "")),
        step if isinstance(step, int) else None,
        tuple(str(each) for each in answer.get("said", ())) if task.rank == 0 else (),
        str(answer.get("refused", "")),
    )


def hand_over(
    choice: Choice, environment: Mapping[str, str], directory: str, task: Task, paths: Mapping[str, str]
) -> Dict[str, str]:
    """The environment of the command: the path as the program sees it, and a file of the job's own that holds it.

    The file behind an older CHAINWATCH_RESUME_FILE stays as it is: it belongs to the chain, and to whatever reads it
    next. Raises OSError.
    """
    below = dict(environment)
    path = mapped(choice.path, paths)
    below[FROM] = path
    below[STEP] = "" if choice.step is None else str(choice.step)
    below[CHOSEN] = mark(task)
    name = os.path.join(directory, "resume-%s-%d" % (task.step or "batch", task.rank if task.step else os.getpid()))
    os.makedirs(directory, exist_ok=True)
    with open(name + ".new", "w", errors="surrogateescape") as out:
        out.write(path + "\n" if path else "")
    os.replace(name + ".new", name)
    below[FILE] = mapped(name, paths)
    return below


def mark(task: Task) -> str:
    """What CHAINWATCH_CHOSEN holds in this attempt."""
    return "%s-%d" % (task.job or "none", task.restarts)


def mapped(path: str, paths: Mapping[str, str]) -> str:
    """`path` as a container sees it: the longest host prefix is replaced."""
    for host in sorted(paths, key=len, reverse=True):
        clean = host.rstrip("/")
        if path == clean or path.startswith(clean + "/"):
            return paths[host].rstrip("/") + path[len(clean) :]
    return path


def avoided(environment: Mapping[str, str]) -> List[str]:
    """Checkpoints that must not be picked in this job."""
    return [each for each in environment.get(AVOID, "").split(":") if each]


def _plain(choice: Choice) -> Dict[str, Any]:
    return choice._asdict()
