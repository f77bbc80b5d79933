"""Slurm's clients in front of a simulated cluster: the daemon reads what they would print, and they carry out its words.

So a whole path is played: text, parser, loop, verdict, decision, and the command that comes out at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from chainwatch.model.job import ExitCode, Job, Node, Step
from chainwatch.simulation import SimulatedBackend
from chainwatch.slurm.backend import NoInformation, Refused, Submission, SubmitUncertain
from chainwatch.slurm.hostlist import compress, expand
from chainwatch.slurm.jobids import expand_tasks
from chainwatch.slurm.process import Reply
from tests.slurm.fake import reply, sacct_says, squeue_says

Row = dict[str, str]
Edit = Callable[[Row], Row | None]
"""Changes one row that a client is about to print; None leaves it out."""
Answer = Callable[[Sequence[str]], Reply]


class Clients:
    """A `Runner` (see `chainwatch.slurm.process`): squeue, sacct, scontrol, sbatch, scancel."""

    def __init__(self, slurm: SimulatedBackend, helpformat: str | None = None) -> None:
        self.slurm = slurm
        self.calls: list[tuple[str, ...]] = []
        """Every command line, program first."""
        self.edits: dict[str, Edit] = {}
        """By client (`squeue`, `sacct`)."""
        self.instead: dict[str, Answer] = {}
        """By client: what answers in its place. Of sbatch the job is submitted all the same."""
        self._fields = helpformat

    def __call__(
        self, command: Sequence[str], *, environment: Mapping[str, str], deadline: float, **more: object
    ) -> Reply:
        program = Path(command[0]).name
        self.calls.append((program, *command[1:]))
        try:
            answered = getattr(self, f"_{program}")(command, environment, more.get("cwd"))
        except Refused as no:
            return reply(stderr=f"{no}\n", code=1, command=command)
        except NoInformation as silence:
            return reply(stderr=_complaint(program, silence), code=1, command=command)
        instead = self.instead.get(program)
        return instead(command) if instead is not None else answered  # type: ignore[no-any-return]

    def lines(self, program: str) -> list[tuple[str, ...]]:
        """The command lines of one client so far."""
        return [call for call in self.calls if call[0] == program]

    # -- what each prints

    def _squeue(self, command: Sequence[str], *_: object) -> Reply:
        user = next((word.partition("=")[2] for word in command if word.startswith("--user=")), None)
        rows = [row for job in self.slurm.queue(user) for row in _queue_rows(job)]
        return squeue_says(*self._edited("squeue", rows))(command)

    def _sacct(self, command: Sequence[str], *_: object) -> Reply:
        if "--helpformat" in command:
            return sacct_says(fields=self._fields)(command)
        given = dict(word.lstrip("-").partition("=")[::2] for word in command[1:] if "=" in word)
        since = datetime.fromisoformat(f"{given['starttime']}+00:00") if "starttime" in given else None
        ids = [int(word) for word in given.get("jobs", "").split(",") if word.isdigit()]
        jobs = self.slurm.accounting(ids, since=since, user=given.get("user"))
        return sacct_says(*self._edited("sacct", [row for job in jobs for row in _records(job)]))(command)

    def _scontrol(self, command: Sequence[str], *_: object) -> Reply:
        words = [word for word in command[1:] if not word.startswith("-")]
        if words[:2] == ["show", "config"]:
            return reply(self._config())
        if words[:2] == ["show", "node"]:
            nodes = self.slurm.nodes(expand(words[2]) if len(words) > 2 else ())
            return reply("\n".join(_node(node) for node in nodes))
        if words[:2] == ["show", "job"]:
            job = self.slurm.job(int(words[2]))
            return reply(_shown(job)) if job is not None else _invalid(command)
        if words[:2] == ["write", "batch_script"]:
            script = self.slurm.script(int(words[2]))
            return reply(script) if script is not None else _invalid(command)
        if words[0] in {"release", "uhold"}:
            (self.slurm.release if words[0] == "release" else self.slurm.hold)(self._raw_id(words[1]))
            return reply()
        raise AssertionError(f"the daemon has no business with scontrol {words}")

    def _sbatch(self, command: Sequence[str], environment: Mapping[str, str], cwd: object) -> Reply:
        words = [word for word in command[1:] if word not in {"--parsable", "--propagate=CORE"}]
        script = next(at for at, word in enumerate(words) if not word.startswith("-"))
        submission = Submission(
            script=words[script],
            args=tuple(words[script + 1 :]),
            options=tuple(words[:script]),
            directory=str(cwd),
            environment=tuple(environment.items()),
        )
        return reply(f"{self.slurm.submit(submission)}\n")

    def _scancel(self, command: Sequence[str], *_: object) -> Reply:
        self.slurm.cancel(self._raw_id(command[-1]), pending_only="--state=PENDING" in command)
        return reply()

    def _raw_id(self, shown: str) -> int:
        return next(job.job_id for job in self.slurm.queue(None) if job.shown_id == shown)

    def _edited(self, client: str, rows: list[Row]) -> list[Row]:
        edit = self.edits.get(client, lambda row: row)
        return [changed for row in rows if (changed := edit(dict(row))) is not None]

    def _config(self) -> str:
        info = self.slurm.info()
        storage = "accounting_storage/slurmdbd" if info.accounting else "(null)"
        pairs = {
            "AccountingStorageType": storage,
            "ClusterName": info.name,
            "MessageTimeout": f"{info.message_timeout} sec",
            "MinJobAge": f"{info.min_job_age} sec",
            "SLURM_VERSION": info.version,
        }
        return "".join(f"{key:<24}= {value}\n" for key, value in pairs.items())


def says(stdout: str = "", stderr: str = "", code: int = 0) -> Answer:
    """One fixed answer."""
    return lambda command: reply(stdout, stderr, code, command)


def _complaint(program: str, silence: NoInformation) -> str:
    if isinstance(silence, SubmitUncertain):
        return f"{silence}\n"
    why = str(silence).split("error: ", 1)[-1]
    return f"{'slurm_load_jobs error' if program == 'squeue' else f'{program}: error'}: {why}\n"


def _invalid(command: Sequence[str]) -> Reply:
    return reply(stderr="slurm_load_jobs error: Invalid job id specified\n", code=1, command=command)


def _queue_rows(job: Job) -> list[Row]:
    """What `squeue --array` prints of a job: the rest of an array in one row a task."""
    tasks = expand_tasks(job.array_task) if job.array_task else ["N/A"]
    row = {
        "JobID": str(job.job_id), "State": job.raw_state, "SubmitTime": _time(job.attempt.submitted),
        "StartTime": _time(job.start), "EndTime": _time(job.end), "PreemptTime": _time(job.preempted_at),
        "ArrayJobID": str(job.array_job_id or job.job_id), "HetJobID": str(job.het_job_id or "N/A"),
        "JobArrayID": job.shown_id, "TimeLimit": _span(job.time_limit), "exit_code": _code(job.exit),
        "DerivedEC": _code(job.derived_exit), "RestartCnt": str(job.restarts or 0), "Requeue": str(int(job.requeue or 0)),
        "PriorityLong": str(job.priority), "NumCPUs": str(job.cpus or 1), "tres-alloc": _tres(job),
        "NodeList": compress(job.nodes), "UserName": job.user, "Partition": job.partition, "QOS": job.qos,
        "Account": job.account, "Reason": job.reason or "None", "Dependency": job.dependency or "(null)",
        "WorkDir": job.directory, "StdOut": job.stdout or f"{job.directory}/slurm-{job.job_id}.out",
        "StdErr": job.stderr or f"{job.directory}/slurm-{job.job_id}.out", "Command": job.command, "Name": job.name,
        "Comment": job.comment or "(null)",
    }  # fmt: skip
    shown = [row | {"ArrayTaskID": str(task)} for task in tasks]
    return (
        [one | {"JobArrayID": f"{job.array_job_id}_{one['ArrayTaskID']}"} for one in shown] if job.array_task else shown
    )


def _records(job: Job) -> list[Row]:
    """What `sacct --duplicates` prints of an attempt: its row and those of its steps."""
    row = {
        "JobIDRaw": str(job.job_id), "JobID": job.shown_id, "State": job.raw_state, "ExitCode": _code(job.exit),
        "DerivedExitCode": _code(job.derived_exit), "Submit": _time(job.attempt.submitted),
        "Start": _time(job.start, "None"), "End": _time(job.end, "Unknown"), "Cluster": job.cluster,
        "AllocTRES": _tres(job), "User": job.user, "Partition": job.partition, "QOS": job.qos, "Account": job.account,
        "NodeList": compress(job.nodes) or "None assigned", "Reason": job.reason or "None", "WorkDir": job.directory,
        "JobName": job.name, "Comment": job.comment, "SubmitLine": job.submit_line, "FailedNode": job.failed_node or "",
    }  # fmt: skip
    return [row, *(_step(job, step) for step in job.steps)]


def _step(job: Job, step: Step) -> Row:
    return {
        "JobIDRaw": f"{job.job_id}.{step.name}", "JobID": f"{job.shown_id}.{step.name}", "State": step.state.value,
        "ExitCode": _code(step.exit, ""), "Submit": _time(job.attempt.submitted), "Start": _time(step.start),
        "End": _time(step.end), "Cluster": job.cluster, "JobName": step.label, "NodeList": compress(step.nodes),
    }  # fmt: skip


def _shown(job: Job) -> str:
    array = ""
    if job.array_job_id is not None and job.array_task is not None:
        array = f"ArrayJobId={job.array_job_id} ArrayTaskId={job.array_task.strip('[]')} "
    return (
        f"JobId={job.job_id} {array}JobName={job.name}\n"
        f"   UserId={job.user}(1001) GroupId={job.user}(1001) MCS_label=N/A\n"
        f"   JobState={job.raw_state} Reason={(job.reason or 'None').replace(' ', '_')} Dependency=(null)\n"
        f"   Requeue={int(job.requeue or 0)} Restarts={job.restarts or 0} BatchFlag=1 Reboot=0 ExitCode=0:0\n"
        f"   SubmitTime={_time(job.attempt.submitted)} EligibleTime=Unknown\n"
        f"   StartTime={_time(job.start)} EndTime={_time(job.end)} Deadline=N/A\n"
        f"   Partition={job.partition} AllocNode:Sid=login1:1\n"
        f"   NodeList={compress(job.nodes) or '(null)'}\n"
        f"   Command={job.command}\n   WorkDir={job.directory}\n   Comment={job.comment} \n"
    )


def _node(node: Node) -> str:
    mark = "*" if "not_responding" in node.flags else ""
    flags = "".join(f"+{flag.upper()}" for flag in sorted(node.flags - {"not_responding"}))
    reason = f"   Reason={node.reason} [root@{_time(node.reason_at)}]\n" if node.reason else ""
    return (
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=8\n   State={node.state.upper()}{mark}{flags} Weight=1\n"
        f"   Partitions={','.join(node.partitions)}\n   BootTime={_time(node.booted_at)}\n{reason}\n"
    )


def _time(moment: datetime | None, nothing: str = "N/A") -> str:
    return nothing if moment is None else str(int(moment.timestamp()))


def _span(span: timedelta | None) -> str:
    if span is None:
        return "UNLIMITED"
    hours, rest = divmod(span.seconds, 3600)
    return f"{span.days}-{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def _code(code: ExitCode | None, nothing: str = "0:0") -> str:
    return nothing if code is None else str(code)


def _tres(job: Job) -> str:
    return f"cpu={job.cpus},gres/gpu={job.gpus}" if job.gpus else ""
