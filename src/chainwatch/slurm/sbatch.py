"""One sbatch call: its arguments, and what its answer means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chainwatch.slurm.backend import Refused, Submission, SubmitUncertain
from chainwatch.slurm.process import Reply
from chainwatch.slurm.refusals import calls_for, unanswered

_ID = re.compile(r"^(?:Submitted batch job )?(\d+)(?:;\S+| on cluster \S+)?$")
_FAILED = re.compile(r"Batch job submission failed: (.*)")
_PREFIX = re.compile(r"^(?:sbatch: )?(?:error|fatal): ")
_NOISE = re.compile(r"^\s*$|^(?:sbatch: )?(?:debug|info)\d*: ")


def arguments(submission: Submission, cluster_options: Sequence[str]) -> list[str]:
    """sbatch's arguments without the program.

    The daemon's own resource limits are not handed on: a service's small memlock breaks InfiniBand. The exception is
    the soft limit of core files: slurmd raises its own to the maximum, and a job with that limit would fill the disk
    where one from a shell leaves none. The user's own `--propagate` comes later on the line and wins.
    """
    return [
        "--parsable",
        *cluster_options,
        "--propagate=CORE",
        *submission.options,
        submission.script,
        *submission.args,
    ]


def job_id(reply: Reply) -> int:
    """The raw id of the new job.

    sbatch prints the id only after the controller accepted the job, so an id counts whatever the exit code says.

    Raises
    ------
    Refused
        Slurm, or sbatch itself, said no: nothing was submitted.
    SubmitUncertain
        No id, and no clear refusal: the job may exist.
    """
    for line in reversed(reply.text.splitlines()):
        found = _ID.match(line.strip())
        if found:
            return int(found[1])
    if reply.code == 0:
        raise SubmitUncertain("sbatch exited with 0 but printed no job id: the job may exist")
    if reply.code < 0:
        raise SubmitUncertain(f"sbatch was ended by signal {-reply.code}: the job may exist")
    lines = [_PREFIX.sub("", line.strip()) for line in reply.stderr.splitlines() if not _NOISE.match(line)]
    said = " ".join(lines)
    failed = _FAILED.search(reply.stderr)
    if unanswered(failed[1]) if failed else (unanswered(said) or not said):
        raise SubmitUncertain(f"sbatch got no answer: {reply.complaint()}")
    raise Refused(_sentence(lines), calls_for(said))


def _sentence(lines: Sequence[str]) -> str:
    """What was said, for people: Slurm's reason, with the lines before it that say more."""
    told = [line.removeprefix("Batch job submission failed: ") for line in lines]
    return ("sbatch was refused: " + "; ".join(dict.fromkeys(told)))[:600]
