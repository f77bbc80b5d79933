"""The process that has pyslurm: it answers a few questions, one JSON line each, until its standard input ends.

It is a program by itself and imports nothing of the project, so that the Python that has pyslurm may be another one than
chainwatch's; its text is handed to that Python. pyslurm is not imported anywhere else: without a slurm.conf its import
ends the process, it holds the interpreter's lock for as long as a controller is silent, and some calls crash.

What may be called stands in `CALLS`. Not called, ever: `hold(mode=…)` and `get_resource_layout_per_node` (crash),
`get_batch_script` (reads private structs), `to_dict` (calls all of them), `submit` (no #SBATCH lines, no site plugins).
"""

import json
import os
import sys
from typing import Any

JOB = (
    "id", "state", "state_reason", "submit_time", "start_time", "end_time", "preempt_time", "array_id", "array_task_id",
    "array_tasks_waiting", "array_tasks_parallel", "heterogeneous_id", "heterogeneous_offset", "time_limit",
    "requeue_count", "is_requeueable", "priority", "cpus", "allocated_nodes", "user_id", "partition", "qos", "account",
    "dependencies", "working_directory", "standard_output", "standard_error", "command", "name", "comment",
    "failed_node", "submit_line",
)  # fmt: skip
"""Attributes of a job, in the order of a row."""
NODE = ("name", "state", "reason", "reason_user", "reason_time", "boot_time", "partitions")
MOST_MEMORY = 4 * 2**30
"""Bytes of address space: whatever leaks inside one call ends there, not in the login node's memory."""


def version(pyslurm: Any, _: Any) -> Any:
    """Releases: of pyslurm, of the controller; and the cluster's name."""
    config = pyslurm.slurmctld.Config.load()
    return [pyslurm.__version__, config.version, config.cluster_name]


def queue(pyslurm: Any, uid: Any) -> Any:
    """Every job that the controller remembers, of one user (a uid) or of everybody (None)."""
    jobs = pyslurm.Jobs.load().values()
    return [[getattr(job, name) for name in JOB] for job in jobs if uid is None or job.user_id == uid]


def nodes(pyslurm: Any, names: Any) -> Any:
    """The nodes named, or all."""
    found = pyslurm.Nodes.load().values()
    return [[getattr(node, name) for name in NODE] for node in found if not names or node.name in names]


CALLS = {"version": version, "queue": queue, "nodes": nodes}


def answer(pyslurm: Any, line: str) -> Any:
    """The reply to one line of request."""
    try:
        request = json.loads(line)
        value = CALLS[request["call"]](pyslurm, request.get("about"))
        return {"id": request["id"], "value": value}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises is its answer
        said = str(error) or repr(error)
        return {
            "id": request["id"],
            "error": type(error).__name__ + ": " + said,
            "number": getattr(error, "errno", None),
        }


def main() -> None:
    """Answer until standard input ends. Whatever the libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    os.dup2(2, 1)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass
    import pyslurm

    for line in sys.stdin:
        replies.write(json.dumps(answer(pyslurm, line)) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
