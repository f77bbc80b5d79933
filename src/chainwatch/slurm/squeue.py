"""One squeue call for all chains of a cluster.

Only the long format (`-O`) knows PreemptTime, and it cannot be joined with `-o`. A field given as `name:SUFFIX`,
without a width, is printed uncut and followed by the suffix in every release since 20.11, so it carries free text too.

`--array` (`-r`) is used, for without it squeue folds a *requeued* array task into the pending rest of its array, and
the task's own raw id vanishes from the answer. With it the rest of an array comes as one row a task, all under one raw
id; they are folded again here. The limit `%N` is not part of this output (see `CliBackend.job`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.hostlist import expand
from chainwatch.slurm.jobids import compress_tasks, expand_tasks
from chainwatch.slurm.records import Marks, rows, strip_null
from chainwatch.slurm.states import parse_state
from chainwatch.slurm.times import parse_duration, parse_time
from chainwatch.slurm.tres import count

_FIELDS = (
    # (field of squeue -O, its header), free text last. All of them are known to every release from 20.11 to 26.05.
    ("JobID", "JOBID"),
    ("State", "STATE"),
    ("SubmitTime", "SUBMIT_TIME"),
    ("StartTime", "START_TIME"),
    ("EndTime", "END_TIME"),
    ("PreemptTime", "PREEMPT_TIME"),
    ("ArrayJobID", "ARRAY_JOB_ID"),
    ("ArrayTaskID", "ARRAY_TASK_ID"),
    ("HetJobID", "HET_JOB_ID"),
    ("JobArrayID", "JOBID"),
    ("TimeLimit", "TIME_LIMIT"),
    ("exit_code", "EXIT_CODE"),
    ("DerivedEC", "DERIVED_EC"),
    ("RestartCnt", "RESTART_COUNT"),
    ("Requeue", "REQUEUE"),
    ("PriorityLong", "PRIORITY"),
    ("NumCPUs", "CPUS"),
    ("tres-alloc", "TRES_ALLOC"),
    ("NodeList", "NODELIST"),
    ("UserName", "USER"),
    ("Partition", "PARTITION"),
    ("QOS", "QOS"),
    ("Account", "ACCOUNT"),
    ("Reason", "REASON"),
    ("Dependency", "DEPENDENCY"),
    ("WorkDir", "WORK_DIR"),
    ("StdOut", "STDOUT"),
    ("StdErr", "STDERR"),
    ("Command", "COMMAND"),
    ("Name", "NAME"),
    ("Comment", "COMMENT"),
)
NAMES = tuple(name for name, _ in _FIELDS)


def arguments(marks: Marks, user: str | None) -> list[str]:
    """squeue's arguments (without the program): every state, tasks apart, hidden partitions too."""
    last = len(_FIELDS) - 1
    fields = [f"{name}:{marks.record if i == last else marks.field}" for i, name in enumerate(NAMES)]
    chosen = ["--all", "--array", "--local", "--states=all", "--noconvert", f"--Format={','.join(fields)}"]
    return chosen if user is None else [*chosen, f"--user={user}"]


def parse(text: str, marks: Marks, cluster: str) -> tuple[Job, ...]:
    """Jobs of an answer to `arguments`. Raises `NoInformation` where it is not a whole answer."""
    found: list[Job] = []
    for number, fields in enumerate(rows(text, marks, len(_FIELDS), "squeue")):
        if number == 0:
            if fields[0].strip() != "JOBID" or fields[1].strip() != "STATE":
                raise NoInformation(f"squeue gave no header: this is not an answer: {fields[0][:80]!r}")
            continue
        found.append(_job(dict(zip(NAMES, fields, strict=True)), cluster))
    return _rests_folded(found)


def _job(row: Mapping[str, str], cluster: str) -> Job:
    submitted = parse_time(row["SubmitTime"])
    if submitted is None or not row["JobID"].strip().isdigit():
        raise NoInformation(f"squeue gave a job without id or submit time: {row['JobID'][:40]!r}")
    state = parse_state(row["State"])
    waiting = state.state in _NOT_STARTED
    task = strip_null(row["ArrayTaskID"].strip())
    start, end, nodes = parse_time(row["StartTime"]), parse_time(row["EndTime"]), expand(row["NodeList"])
    restarts, requeue, priority, cpus = (row[name] for name in ("RestartCnt", "Requeue", "PriorityLong", "NumCPUs"))
    return Job(
        attempt=AttemptId(cluster, int(row["JobID"]), submitted),
        shown_id=row["JobArrayID"].strip(),
        state=state.state,
        source=Source.QUEUE,
        raw_state=row["State"].strip(),
        reason=strip_null(row["Reason"].strip()),
        name=row["Name"],
        user=row["UserName"],
        partition=row["Partition"],
        qos=strip_null(row["QOS"]),
        account=strip_null(row["Account"]),
        comment=strip_null(row["Comment"]),
        array_job_id=int(row["ArrayJobID"]) if task and row["ArrayJobID"].strip().isdigit() else None,
        array_task=task or None,
        het_job_id=int(row["HetJobID"]) if row["HetJobID"].strip().isdigit() else None,
        start=None
        if waiting or not nodes
        else start,  # without nodes it is a forecast, or the end of one cancelled early
        end=end if state.state.terminal else None,
        preempted_at=parse_time(row["PreemptTime"]),
        time_limit=parse_duration(row["TimeLimit"]),
        nodes=nodes,
        exit=exit_code(row["exit_code"]) if state.state.terminal else None,
        derived_exit=exit_code(row["DerivedEC"]) if state.state.terminal else None,
        restarts=int(restarts) if restarts.strip().isdigit() else None,
        requeue=bool(int(requeue)) if requeue.strip().isdigit() else None,
        priority=int(priority) if priority.strip().isdigit() else None,
        dependency=strip_null(row["Dependency"]),
        directory=row["WorkDir"],
        command=strip_null(row["Command"]),
        stdout=_log(row["StdOut"], row),
        stderr=_log(row["StdErr"], row),
        cpus=int(cpus) if cpus.strip().isdigit() else None,
        gpus=count(row["tres-alloc"], "gres/gpu"),
    )


def _log(text: str, row: Mapping[str, str]) -> str:
    """The pattern; nothing where none was given. squeue then prints a name that is wrong for the task of an array."""
    return "" if text == f"{row['WorkDir']}/slurm-{row['JobID']}.out" else strip_null(text)


_NOT_STARTED = frozenset(
    {JobState.PENDING, JobState.REQUEUE_HOLD, JobState.SPECIAL_EXIT, JobState.REQUEUE_FED, JobState.RESV_DEL_HOLD}
)


def exit_code(text: str) -> ExitCode | None:
    """squeue's exit_code: `1:0` in newer releases, the raw wait status (256 for exit 1) up to 23.02."""
    text = text.strip()
    code, colon, sig = text.partition(":")
    if colon and code.isdigit() and sig.isdigit():
        return ExitCode(int(code), int(sig))
    if not text.isdigit() or int(text) >= 2**16:
        return None
    status = int(text)
    return ExitCode(0, status & 0x7F) if status & 0x7F else ExitCode(status >> 8)


def _rests_folded(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """One job for the pending rest of each array, whose tasks share a raw id."""
    folded: list[Job] = []
    for _, group in groupby(jobs, key=lambda job: job.attempt):
        same = list(group)
        first = same[0]
        if first.array_task is not None and (len(same) > 1 or not first.array_task.isdigit()):
            tasks = compress_tasks(task for job in same for task in expand_tasks(job.array_task or ""))
            first = replace(first, array_task=tasks, shown_id=f"{first.array_job_id}_{tasks}")
        folded.append(first)
    return tuple(folded)
