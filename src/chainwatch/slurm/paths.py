"""Where an attempt's logs lie: Slurm's file name patterns, filled in.

`squeue` (all releases) and `sacct` (24.05 on) give the pattern as the user wrote it; `scontrol` fills in some letters
and gets `%%`, widths and backslashes wrong. So the pattern is filled in here, as slurmstepd does it (`fname.c`).
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass

from chainwatch.model.job import Job

NO_ARRAY_TASK = 4_294_967_294
"""What `%a` gives in a job that is no array: NO_VAL, printed as a number."""

_LETTER = re.compile(r"%(?P<width>\d*)(?P<letter>[%A-Za-z])")
_MOST_WIDTH = 10


@dataclass(frozen=True, slots=True)
class LogPaths:
    """The logs of one attempt; the same path twice where stderr is not apart."""

    stdout: str
    stderr: str

    @property
    def distinct(self) -> tuple[str, ...]:
        """Each file once, stdout first; what is written to /dev/null left out."""
        return tuple(dict.fromkeys(path for path in (self.stdout, self.stderr) if path and path != os.devnull))


def log_paths(job: Job) -> LogPaths:
    """The batch script's logs, absolute; empty where neither a pattern nor a directory is known."""
    stdout = expand(job.stdout, job) if job.stdout else _default(job)
    return LogPaths(stdout, expand(job.stderr, job) if job.stderr else stdout)


def expand(pattern: str, job: Job) -> str:
    """The file that slurmstepd opens for the batch script of this job.

    `%j %J %A %a %b %x %u %N %n %s %t %%`, with a width that pads numbers (`%5j`, at most 10). A backslash anywhere
    turns all of that off and is taken away. A letter that means nothing stays as it is.
    """
    if "\\" in pattern:
        return _absolute(re.sub(r"\\(\\?)", r"\1", pattern), job)
    values = _values(job)
    return _absolute(_LETTER.sub(lambda found: _one(found, values, None), pattern), job)


def expand_to_glob(pattern: str, job: Job, *, directory: str | None = None, globs: bool = False) -> str:
    """A glob that matches the files of all tasks, nodes and steps of this job: `%t`, `%n`, `%N` and `%s` are `*`.

    For logs that `srun --output` writes, a file a task. What a job's name holds of `*`, `?` and `[` is taken literally, and
    so is what the pattern holds of them, unless it may be a glob itself. `directory`: of a relative one; by default the
    job's.
    """
    values = {letter: glob.escape(value) for letter, value in _values(job).items()} | dict.fromkeys("tnNs", "*")
    values["J"] = f"{job.job_id}*"
    parts: list[str] = []
    end = 0
    kept = str if globs else glob.escape
    for found in _LETTER.finditer(pattern):
        parts += [kept(pattern[end : found.start()]), _one(found, values, "*")]
        end = found.end()
    parts.append(kept(pattern[end:]))
    whole, base = "".join(parts), job.directory if directory is None else directory
    return whole if whole.startswith("/") or not base else f"{glob.escape(base.rstrip('/'))}/{whole}"


def directory_of(pattern: str, job_name: str) -> str:
    """The directory of the files that a pattern names, as far as it is known before the job is: up to a part that holds
    the node, the task or the user. `%j` stays, since no such directory can be there beforehand; empty: the job's own."""
    if "\\" in pattern:
        return os.path.dirname(re.sub(r"\\(\\?)", r"\1", pattern))
    known: list[str] = []
    for part in pattern.split("/")[:-1]:
        letters = {found["letter"] for found in _LETTER.finditer(part)}
        if letters - set("jJAx%"):
            break
        known.append(part.replace("%x", job_name).replace("%%", "%"))
    return "/".join(known) or ("/" if pattern.startswith("/") else "")


def _values(job: Job) -> dict[str, str]:
    task = job.array_task if job.array_task and job.array_task.isdigit() else str(NO_ARRAY_TASK)
    return {
        "%": "%",
        "j": str(job.job_id),
        "J": str(job.job_id),
        "A": str(job.array_job_id if job.array_job_id is not None else job.job_id),
        "a": task,
        "b": str(int(task) % 10),
        "x": job.name,
        "u": job.user,
        "N": job.nodes[0].partition(".")[0] if job.nodes else "",
        "n": "0",
        "s": "batch",
        "t": "0",
    }


def _one(found: re.Match[str], values: dict[str, str], wild: str | None) -> str:
    width, letter = found["width"], found["letter"]
    if letter not in values or (letter == "%" and width):
        return found[0]
    value = values[letter]
    if width and value.isdigit() and value != wild:
        return value.zfill(min(int(width), _MOST_WIDTH))
    return value


def _default(job: Job) -> str:
    if not job.directory:
        return ""
    if job.array_job_id is not None and job.array_task is not None:
        return _absolute(f"slurm-{job.array_job_id}_{job.array_task}.out", job)
    return _absolute(f"slurm-{job.job_id}.out", job)


def _absolute(path: str, job: Job) -> str:
    if path.startswith("/") or not job.directory:
        return path
    return f"{job.directory.rstrip('/')}/{path}"
