"""Rows of the worker as jobs and nodes: the same words, whichever backend they came by."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from chainwatch.model.job import AttemptId, Job, JobState, Node, Source
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.hostlist import expand
from chainwatch.slurm.jobids import compress_tasks, expand_tasks
from chainwatch.slurm.pyslurm.worker import JOB, NODE
from chainwatch.slurm.records import strip_null
from chainwatch.slurm.scontrol import node_state
from chainwatch.slurm.states import parse_state

_NOT_STARTED = frozenset(
    {JobState.PENDING, JobState.REQUEUE_HOLD, JobState.SPECIAL_EXIT, JobState.REQUEUE_FED, JobState.RESV_DEL_HOLD}
)
_DEFAULT_LOG = re.compile(r"/slurm-\d+(?:_\d+)?\.out")


def jobs(rows: object, cluster: str, user_name: Callable[[int], str]) -> tuple[Job, ...]:
    """Jobs of an answer to `queue`. Raises `NoInformation` where it is no whole answer."""
    return tuple(_job(row, cluster, user_name) for row in _records(rows, JOB))


def nodes(rows: object) -> tuple[Node, ...]:
    """Nodes of an answer to `nodes`. Raises `NoInformation` where it is no whole answer."""
    return tuple(_node(row) for row in _records(rows, NODE))


def _records(rows: object, names: Sequence[str]) -> list[dict[str, Any]]:
    if not isinstance(rows, list):
        raise NoInformation("pyslurm gave no list")
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != len(names):
            raise NoInformation("pyslurm gave a row that is not whole")
        found.append(dict(zip(names, row, strict=True)))
    return found


def _job(row: Mapping[str, Any], cluster: str, user_name: Callable[[int], str]) -> Job:
    submitted = _time(row["submit_time"])
    if submitted is None or not isinstance(row["id"], int):
        raise NoInformation(f"pyslurm gave a job without id or submit time: {row['id']!r}")
    state = parse_state(_text(row["state"])).state
    raw = row["id"]
    array, het = row["array_id"], row["heterogeneous_id"]
    task = _task(row) if array else None
    shown = str(raw)
    if task is not None:
        shown = f"{array}_{task}"
    elif het:
        shown = f"{het}+{row['heterogeneous_offset'] or 0}"
    placed = expand(_text(row["allocated_nodes"]))
    limit = row["time_limit"]
    return Job(
        attempt=AttemptId(cluster, raw, submitted),
        shown_id=shown,
        state=state,
        source=Source.QUEUE,
        raw_state=_text(row["state"]),
        reason=strip_null(_text(row["state_reason"])),
        name=_text(row["name"]),
        user=user_name(row["user_id"]),
        partition=_text(row["partition"]),
        qos=strip_null(_text(row["qos"])),
        account=strip_null(_text(row["account"])),
        comment=strip_null(_text(row["comment"])),
        array_job_id=array if task is not None else None,
        array_task=task,
        array_limit=_number(row["array_tasks_parallel"]) if task is not None else None,
        het_job_id=het or None,
        start=_time(row["start_time"]) if placed and state not in _NOT_STARTED else None,  # otherwise a forecast
        end=_time(row["end_time"]) if state.terminal else None,
        preempted_at=_time(row["preempt_time"]),
        time_limit=timedelta(minutes=limit) if isinstance(limit, int) else None,
        nodes=placed,
        restarts=_number(row["requeue_count"]) or 0,
        requeue=row["is_requeueable"] if isinstance(row["is_requeueable"], bool) else None,
        priority=_number(row["priority"]),
        dependency=dependency(row["dependencies"]),
        failed_node=strip_null(_text(row["failed_node"])) or None,
        directory=_text(row["working_directory"]),
        command=strip_null(_text(row["command"])),
        submit_line=_text(row["submit_line"]),
        stdout=_log(row["standard_output"], row),
        stderr=_log(row["standard_error"], row),
        cpus=_number(row["cpus"]),
    )


def dependency(parts: object) -> str:
    """Slurm's own text of the dictionary that pyslurm makes of it: `afterany:7(unfulfilled),singleton`."""
    if not isinstance(parts, dict):
        return ""
    told = [f"{kind}:{one}" for kind, ids in parts.items() if isinstance(ids, list) for one in ids]
    if parts.get("singleton"):
        told.append("singleton")
    return ("?" if parts.get("satisfy") == "any" else ",").join(told)


def _task(row: Mapping[str, Any]) -> str | None:
    """`4`, or the pending rest with its brackets; None of a job that is no array."""
    waiting = _text(row["array_tasks_waiting"])
    if waiting:
        return compress_tasks(expand_tasks(waiting))
    # Zero is a task's number too, and pyslurm makes None of it; the array's own id is there all the same.
    number = row["array_task_id"]
    return str(number if isinstance(number, int) else 0)


def _log(path: object, row: Mapping[str, Any]) -> str:
    """The path; nothing where none was given, as in the other backend."""
    text = strip_null(_text(path))
    directory = _text(row["working_directory"])
    return "" if text.startswith(directory) and _DEFAULT_LOG.fullmatch(text[len(directory) :]) else text


def _node(row: Mapping[str, Any]) -> Node:
    if not row["name"] or not row["state"]:
        raise NoInformation(f"pyslurm gave a node without name or state: {row['name']!r}")
    state, flags = node_state(_text(row["state"]))
    reason = _text(row["reason"])
    partitions = row["partitions"]
    return Node(
        name=_text(row["name"]),
        state=state,
        flags=flags,
        reason=reason,
        reason_by=_text(row["reason_user"]) if reason else "",
        reason_at=_time(row["reason_time"]) if reason else None,
        booted_at=_time(row["boot_time"]),
        partitions=tuple(map(str, partitions)) if isinstance(partitions, list) else (),
    )


def _time(value: object) -> datetime | None:
    return datetime.fromtimestamp(value, UTC) if isinstance(value, int) and value > 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
