"""Who this task is, and where the files of its job stand: `.chainwatch/jobs/JOBID-RESTARTS/` beside the run."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Dict, Mapping, NamedTuple, Optional

DIRECTORY = "CHAINWATCH_DIR"
"""Names the directory that is otherwise `.chainwatch` in the job's working directory."""
NAME = ".chainwatch"
JOBS = "jobs"


class Task(NamedTuple):
    """One task of a job, or the batch script itself."""

    job: str
    """Raw job id; empty outside of Slurm."""
    restarts: int
    """How often Slurm requeued this id before."""
    step: str
    """Step id; empty in the batch script, where each call stands for itself."""
    rank: int
    local_rank: int
    """Rank on this node: task 0 of a node speaks for it."""
    node: str

    @property
    def leads_node(self) -> bool:
        return self.local_rank == 0


def task_of(environment: Mapping[str, str]) -> Task:
    """The task that Slurm's variables describe."""
    node = environment.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    in_step = "SLURM_PROCID" in environment and environment.get("SLURM_STEP_ID", "").isdigit()
    return Task(
        job=environment.get("SLURM_JOB_ID", ""),
        restarts=_number(environment.get("SLURM_RESTART_COUNT")),
        step=environment["SLURM_STEP_ID"] if in_step else "",
        rank=_number(environment.get("SLURM_PROCID")),
        local_rank=_number(environment.get("SLURM_LOCALID")),
        node=node,
    )


def directory_of(environment: Mapping[str, str], task: Task) -> str:
    """The job's own directory (not made here): on the storage of the run, so that every node sees it."""
    root = environment.get(DIRECTORY) or os.path.join(environment.get("SLURM_SUBMIT_DIR") or os.getcwd(), NAME)
    return os.path.join(root, JOBS, "%s-%d" % (task.job or "none-%d" % os.getpid(), task.restarts))


def write_json(path: str, content: Dict[str, Any]) -> None:
    """Replace a file as a whole; its directory is made. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = "%s.%s.%d" % (path, socket.gethostname(), os.getpid())
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as out:
        json.dump(content, out)
        out.write("\n")
    os.replace(temporary, path)


def read_json(path: str, limit: int = 1 << 20) -> Optional[Dict[str, Any]]:
    """An object from a file of at most `limit` bytes; None where it is not there, or no such thing. Raises OSError."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as source:
            value = json.loads(source.read(limit))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _number(text: Optional[str]) -> int:
    return int(text) if text and text.isdigit() else 0
