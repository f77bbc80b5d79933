"""Looking into a running job: a step of our own beside the others, and sstat where that is refused.

The step takes nothing of the job: `--overlap` shares what the other steps hold, without GPUs and without memory of its
own (measured on 22.05: allocated are cores alone, which are shared). It is named, so that evidence can leave it out, and
its shell exits 0 whatever Python does. A client that does not come back is killed by SIGKILL: on SIGTERM srun would
cancel the step, and the job's DerivedExitCode would tell of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chainwatch.model.probe import STEP_LABEL, StepUsage
from chainwatch.slurm.times import parse_duration

ANSWERED = "ran"
"""What a node's shell says after the program: the node answers, whatever the program did."""
SSTAT_FIELDS = "JobID,NTasks,AveCPU,MinCPU,MinCPUNode,MinCPUTask"
_SHELL = (
    "PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/libexec; "
    "for p in python3 platform-python python; do "
    'command -v "$p" >/dev/null 2>&1 && { "$p" -I -B - "$@"; break; }; '
    f'done; echo "{STEP_LABEL} $SLURMD_NODENAME {ANSWERED}"; exit 0'
)


def arguments(job_id: int, nodes: int, words: Sequence[str]) -> list[str]:
    """srun's arguments for one task on each of the job's nodes, the program on standard input."""
    return [
        f"--jobid={job_id}",
        "--overlap",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--cpu-bind=none",
        "--gres=none",
        "--mem=0",
        "--mpi=none",
        "--input=all",
        "--time=1",
        "--chdir=/",
        "--export=NONE",
        "--quiet",
        f"--job-name={STEP_LABEL}",
        "/bin/sh",
        "-c",
        _SHELL,
        STEP_LABEL,
        *words,
    ]


def sstat_arguments(job_id: int) -> list[str]:
    """sstat's arguments for all steps of a job."""
    return ["--noheader", "--parsable2", "--allsteps", f"--jobs={job_id}", f"--format={SSTAT_FIELDS}"]


def parse_usage(text: str) -> tuple[StepUsage, ...]:
    """The program's own steps of an answer to `sstat_arguments`; `batch`, `extern` and half rows are left out."""
    found = []
    for line in text.splitlines():
        cells = line.split("|")
        step = cells[0].rpartition(".")[2]
        if len(cells) != 6 or not step.isdigit() or not cells[1].isdigit() or not re.fullmatch(r"\d+", cells[5]):
            continue
        average, least = parse_duration(cells[2]), parse_duration(cells[3])
        if average is not None and least is not None:
            seconds = (average.total_seconds(), least.total_seconds())
            found.append(StepUsage(step, int(cells[1]), *seconds, cells[4], int(cells[5])))
    return tuple(found)
