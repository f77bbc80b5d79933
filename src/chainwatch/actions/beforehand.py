"""What can be told of a chain's jobs before one is submitted, from its settings and its script."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from chainwatch.actions import options
from chainwatch.config.models import Chain
from chainwatch.model.pattern import in_lines
from chainwatch.model.plain_file import may_exist
from chainwatch.model.text import make_directories
from chainwatch.slurm.jobids import one_by_one, side_by_side
from chainwatch.slurm.paths import directory_of


def submitted_with(settings: Chain, script_text: str, name: str, extra: Sequence[str] = ()) -> str | None:
    """The value of this option that will count: the command line's before the script's. None: it is not given.

    Options that cannot be taken apart are left to sbatch to complain about.
    """
    try:
        given = options.parse([*settings.sbatch, *extra]).options
    except ValueError:
        given = ()
    on_line = options.last(given, name)
    return on_line if on_line is not None else options.last(options.script_options(script_text), name)


def parallel(array: str | None) -> str:
    """Why an array is no chain, for people; empty where its tasks come one after another, or there is no array."""
    if array is None or one_by_one(array):
        return ""
    return (
        f"--array={array} runs {side_by_side(array)} tasks side by side, and a chain is one job at a time: add %1, and its "
        "tasks are the chain's attempts; or make each task a chain (`each: {matrix: {task: [0, 1]}}` with "
        "`sbatch: --array={task}`)"
    )


def missing_log_directories(
    settings: Chain, script_text: str, directory: str, there: Callable[[str], bool] = may_exist
) -> tuple[str, ...]:
    """Directories that `--output` and `--error` name and that are not there. `directory`: where sbatch is called.

    What lies under a top directory that this machine does not have (a node's own disk) is not judged.
    """
    base = os.path.join(directory, submitted_with(settings, script_text, "chdir") or "")
    name = submitted_with(settings, script_text, "job-name") or os.path.basename(str(settings.batch))
    missing: list[str] = []
    for option in ("output", "error"):
        where = directory_of(submitted_with(settings, script_text, option) or "", name)
        path = os.path.normpath(os.path.join(base, where))
        top = "/".join(path.split("/")[:2])
        if where and there(top) and not there(path):
            missing.append(path)
    return tuple(dict.fromkeys(missing))


def without_logs(missing: Sequence[str]) -> str:
    """What a missing directory of logs means, for people."""
    these = " and ".join(missing)
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{these}, where the job's output goes, {verb} not there: older Slurm (22.05) ends such a job without a word, newer "
        f"ones make it: {make_directories(missing)}"
    )


def prints_the_mark(settings: Chain, script_text: str) -> str:
    """What it means that the script itself prints the mark of completion, for people; empty where it does not.

    Only what stands by itself at the beginning of a line, or behind a `;`: what is guarded (`&&`, `if`) is the script's own
    judgement, and `set -e` guards all of it.
    """
    if settings.done.mark is None or _ENDS_AT_ERRORS.search(script_text):
        return ""
    import re2  # here, since most commands meet no pattern

    mark = re2.compile(in_lines(settings.done.mark.pattern))
    for number, line in enumerate(script_text.splitlines(), 1):
        for said in _SAYS.findall(line):
            if mark.search(said.strip().strip("\"'")):
                return (
                    f"line {number} of {settings.batch} prints the mark /{settings.done.mark.pattern}/ itself, whatever the "
                    "program before it returned, so that a run that died would count as done: write `srun … && echo …`, or "
                    "`set -e` at its head"
                )
    return ""


_SAYS = re.compile(r"^(?:(?:(?!&&|\|\||\bif\b|\bthen\b).)*;\s*)?(?:echo(?:\s+-[neE]+)?|printf)\s+([^;&|>]*)")
_ENDS_AT_ERRORS = re.compile(r"(?m)^(?:#!.*\s-\w*e\w*\s*$|\s*set\s+(?:-\w+\s+)*-(?:\w*e\w*|o\s+errexit))")
