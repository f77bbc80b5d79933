"""Reading what `scontrol show job`, `show node` and `show config` print.

The format is for people: `Key=value` parted by blanks, with free text in between that may hold blanks, `=` and even
line breaks. The many-line form (without `-o`) is read, for there each free text stands alone on its line; on the lines
with several keys only keys that Slurm is known to print there are taken as keys, and the first one of a name counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Node, Source
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.hostlist import expand
from chainwatch.slurm.jobids import compress_tasks, expand_tasks
from chainwatch.slurm.records import strip_null
from chainwatch.slurm.sacct import array_limit, exit_code
from chainwatch.slurm.states import parse_state
from chainwatch.slurm.times import parse_duration, parse_time
from chainwatch.slurm.tres import count

_ALONE = (
    "Command", "WorkDir", "AdminComment", "SystemComment", "Comment", "StdErr", "StdIn", "StdOut", "SubmitLine",
    "Extra", "OS", "Reason", "Gres",
)  # fmt: skip
"""Keys whose value is the whole rest of the line, whatever it holds."""
_KEYS = (
    "JobId", "ArrayJobId", "ArrayTaskId", "ArrayTaskThrottle", "HetJobId", "HetJobOffset", "JobName", "UserId",
    "GroupId", "MCS_label", "Priority", "Nice", "Account", "QOS", "WCKey", "JobState", "Reason", "FailedNode",
    "Dependency", "Requeue", "Restarts", "BatchFlag", "Reboot", "ExitCode", "DerivedExitCode", "RunTime", "TimeLimit",
    "TimeMin", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "Deadline", "PreemptEligibleTime",
    "PreemptTime", "SuspendTime", "SecsPreSuspend", "LastSchedEval", "Scheduler", "Partition", "AllocNode:Sid",
    "ReqNodeList", "ExcNodeList", "NodeList", "SchedNodeList", "BatchHost", "NumNodes", "NumCPUs", "NumTasks",
    "CPUs/Task", "TRES", "ReqTRES", "AllocTRES", "Features", "Reservation", "OverSubscribe", "Licenses", "Network",
    "NodeName", "Arch", "CoresPerSocket", "NodeAddr", "NodeHostName", "Port", "Version", "State", "ThreadsPerCore",
    "TmpDisk", "Weight", "Owner", "Partitions", "BootTime", "SlurmdStartTime", "LastBusyTime", "ResumeAfterTime",
    "NextState", "SLUID", "ReqB:S:C:T", "FedOrigin", "FedViableSiblings", "FedActiveSiblings",
)  # fmt: skip
_KEY = re.compile(r"(?:^|\s)(" + "|".join(re.escape(key) for key in sorted(_KEYS, key=len, reverse=True)) + r")=")
_STARTS_ALONE = re.compile(r"^\s+(" + "|".join(_ALONE) + r")=(.*)$", re.DOTALL)
_NEW_LINE = re.compile(r"^ {2,}[A-Za-z][\w:/]*[=:]")


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    for block in re.split(rf"^(?={first}=)", text, flags=re.MULTILINE):
        if block.startswith(f"{first}="):
            yield _record(block)


def _record(block: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in _lines(block):
        alone = _STARTS_ALONE.match(line)
        if alone:
            values.setdefault(alone[1], alone[2].rstrip("\n"))
            continue
        found = list(_KEY.finditer(line))
        for at, key in enumerate(found):
            name = key[1]
            free = name == "JobName"  # the rest of its line, whatever it holds
            stop = found[at + 1].start() if at + 1 < len(found) and not free else len(line)
            value = line[key.end() : stop]
            values.setdefault(name, value.rstrip("\n") if free else value.strip())
            if free:
                break
    return values


def _lines(block: str) -> Iterator[str]:
    """Lines of one record; a line that begins no key belongs to the text before it (a comment with line breaks)."""
    pending: str | None = None
    for line in block.splitlines():
        if pending is None or _NEW_LINE.match(line):
            if pending is not None:
                yield pending
            pending = line
        elif line.strip():
            pending += "\n" + line
    if pending is not None:
        yield pending


def parse_jobs(text: str, cluster: str) -> tuple[Job, ...]:
    """All jobs of a `scontrol show job` answer. Raises `NoInformation` where a record is not whole."""
    return tuple(_job(row, cluster) for row in _records(text, "JobId"))


def _job(row: Mapping[str, str], cluster: str) -> Job:
    submitted = parse_time(row.get("SubmitTime", ""))
    if submitted is None or not row["JobId"].isdigit() or "JobState" not in row:
        raise NoInformation(f"scontrol show job gave no whole record: {row.get('JobId', '')[:40]!r}")
    state = parse_state(row["JobState"])
    raw = int(row["JobId"])
    nodes = expand(row.get("NodeList", ""))
    array, task, limit = _array(row)
    het = row.get("HetJobId", "")
    het_job_id = int(het) if het.isdigit() and int(het) else None
    shown = f"{array}_{task}" if array is not None and task else str(raw)
    if het_job_id is not None:
        shown = f"{het_job_id}+{row.get('HetJobOffset', '0')}"
    terminal = state.state.terminal
    line = row.get("SubmitLine", "")
    cpus = row.get("NumCPUs", "")
    return Job(
        attempt=AttemptId(cluster, raw, submitted),
        shown_id=shown,
        state=state.state,
        source=Source.CONTROLLER,
        raw_state=row["JobState"],
        reason=strip_null(row.get("Reason", "")),
        name=row.get("JobName", ""),
        user=re.sub(r"\(\d+\)$", "", row.get("UserId", "")),
        partition=strip_null(row.get("Partition", "")),
        qos=strip_null(row.get("QOS", "")),
        account=strip_null(row.get("Account", "")),
        comment=strip_null(_untrailed(row.get("Comment", ""))),
        array_job_id=array,
        array_task=task,
        array_limit=limit if limit is not None else (array_limit(line) if array is not None else None),
        het_job_id=het_job_id,
        start=parse_time(row.get("StartTime", "")) if nodes and state.state is not JobState.PENDING else None,
        end=parse_time(row.get("EndTime", "")) if terminal else None,
        preempted_at=parse_time(row.get("PreemptTime", "")),
        time_limit=parse_duration(row.get("TimeLimit", "")),
        nodes=nodes,
        exit=exit_code(row.get("ExitCode", "")) if terminal else None,
        derived_exit=_derived(row) if terminal else None,
        restarts=_number(row.get("Restarts", "")),
        requeue=None if _number(row.get("Requeue", "")) is None else bool(_number(row.get("Requeue", ""))),
        priority=_number(row.get("Priority", "")),
        dependency=strip_null(row.get("Dependency", "")),
        failed_node=strip_null(row.get("FailedNode", "")) or None,
        directory=row.get("WorkDir", ""),
        command=strip_null(row.get("Command", "")),
        submit_line=line,
        stdout=strip_null(row.get("StdOut", "")),
        stderr=strip_null(row.get("StdErr", "")),
        gpus=count(row.get("AllocTRES") or row.get("ReqTRES") or row.get("TRES", ""), "gres/gpu"),
        cpus=_number(cpus.partition("-")[0]),
    )


def _array(row: Mapping[str, str]) -> tuple[int | None, str | None, int | None]:
    """Array id, task (with brackets where it is the pending rest) and limit."""
    base = _number(row.get("ArrayJobId", ""))
    if base is None or "ArrayTaskId" not in row:
        return None, None, None
    tasks, percent, number = row["ArrayTaskId"].partition("%")
    limit = _number(number) if percent else _number(row.get("ArrayTaskThrottle", ""))
    task = tasks if tasks.isdigit() else compress_tasks(expand_tasks(tasks))
    return base, task, limit or None


def _derived(row: Mapping[str, str]) -> ExitCode | None:
    return exit_code(row.get("DerivedExitCode", ""))


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _untrailed(comment: str) -> str:
    """Up to 25.05 a blank is printed after comments."""
    return comment.removesuffix(" ")


_NODE_FLAGS = {
    "drain": "drain",
    "drained": "drain",
    "draining": "drain",
    "not_responding": "not_responding",
    "maintenance": "maintenance",
    "maint": "maintenance",
    "reserved": "reserved",
    "fail": "fail",
    "powered_down": "powered_off",
    "power_down": "powered_off",
    "powering_down": "powering_down",
    "powering_up": "powering_up",
    "reboot_requested": "reboot_requested",
    "reboot_issued": "reboot_issued",
    "reboot": "reboot_requested",
}
_NODE_MARKS = {
    "*": "not_responding",
    "~": "powered_off",
    "#": "powering_up",
    "%": "powering_down",
    "!": "powering_down",
    "$": "maintenance",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": "planned",
}
"""sinfo's marks behind a state."""
_DRAINING = frozenset({"drain", "drained", "drng", "draining"})
_NODE_BASES = {
    "alloc": "allocated",
    "comp": "completing",
    "mix": "mixed",
    "unk": "unknown",
    "drain": "idle",
    "drained": "idle",
    "drng": "allocated",
    "draining": "allocated",
}
_REASON = re.compile(r"^(?P<text>.*?)(?:\s*\[(?P<by>[^@\]]*)@(?P<at>[^\]]*)\])?$", re.DOTALL)


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Nodes of a `scontrol show node` answer, with state, flags, reason and boot time."""
    return tuple(_node(row) for row in _records(text, "NodeName"))


def node_state(text: str) -> tuple[str, frozenset[str]]:
    """Base state and flags of `MIXED+DRAIN+PLANNED`, `DOWN*+DRAIN`, or of sinfo's `idle~` and `drain`; lower case."""
    flags: set[str] = set()
    words = []
    for word in text.strip().lower().split("+"):
        bare = word.rstrip("".join(_NODE_MARKS))
        flags.update(_NODE_MARKS[mark] for mark in word[len(bare) :])
        words.append(bare)
    base, *more = words
    flags.update(_NODE_FLAGS.get(flag, flag) for flag in more)
    if base in _DRAINING:
        flags.add("drain")
    return _NODE_BASES.get(base, base), frozenset(flags)


def _node(row: Mapping[str, str]) -> Node:
    if "State" not in row:
        raise NoInformation(f"scontrol show node gave no whole record: {row['NodeName'][:40]!r}")
    state, flags = node_state(row["State"])
    reason = _REASON.match(row.get("Reason", ""))
    return Node(
        name=row["NodeName"],
        state=state,
        flags=flags,
        reason=reason["text"].strip() if reason else "",
        reason_by=(reason["by"] or "") if reason else "",
        reason_at=parse_time(reason["at"] or "") if reason else None,
        booted_at=parse_time(row.get("BootTime", "")),
        partitions=tuple(part for part in row.get("Partitions", "").split(",") if part),
    )


def parse_config(text: str) -> dict[str, str]:
    """`scontrol show config` as keys and values; units of times (`15 sec`) are left in the values."""
    pairs = (line.partition("=") for line in text.splitlines() if " = " in line)
    return {key.strip(): value.strip() for key, _, value in pairs}
