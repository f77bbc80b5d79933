"""The cluster as its command line tools show it: squeue, sacct, scontrol, sbatch, scancel."""

from __future__ import annotations

import copy
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chainwatch.model.job import Job, Node
from chainwatch.model.probe import STEP_LABEL, StepUsage
from chainwatch.slurm import probing, process, sacct, sbatch, scontrol, squeue
from chainwatch.slurm.backend import (
    ClusterInfo,
    NoInformation,
    Refusal,
    Refused,
    Submission,
    SubmitUncertain,
)
from chainwatch.slurm.hostlist import compress
from chainwatch.slurm.process import Reply, answer
from chainwatch.slurm.records import Marks
from chainwatch.slurm.refusals import calls_for, gone, unanswered


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds until a client is killed. Slurm's own give up after one or two MessageTimeouts (10 s each by default)."""

    query: float = 60.0
    act: float = 60.0
    submit: float = 120.0
    probe: float = 60.0


class CliBackend:
    """One cluster by its command line tools. See `Backend` for what each method promises.

    Parameters
    ----------
    name
        The cluster's name, as Slurm knows it (ClusterName).
    conf
        Path of its slurm.conf, where it is not the machine's own.
    bin_dir
        Directory of the Slurm programs; None: PATH.
    by_clusters_option
        The cluster is another one that this machine's Slurm reaches through `--clusters` (-M).
    has_accounting
        False: sacct is not asked (no slurmdbd, or forbidden by the site). None: as the controller's configuration says.
    environment
        The environment that clients get, scrubbed of what changes their output; the daemon's own by default.
    """

    def __init__(
        self,
        name: str,
        conf: str | None = None,
        bin_dir: str | None = None,
        *,
        deadlines: Deadlines | None = None,
        by_clusters_option: bool = False,
        has_accounting: bool | None = None,
        environment: Mapping[str, str] | None = None,
        run: process.Runner = process.run,
    ) -> None:
        self.name = name
        self._conf = conf
        self._bin_dir = bin_dir
        self._deadlines = deadlines or Deadlines()
        self._clusters = (f"--clusters={name}",) if by_clusters_option else ()
        self._has_accounting = has_accounting
        self._environment = process.client_environment(os.environ if environment is None else environment, conf)
        self._run = run
        self._fields: tuple[str, ...] | None = None

    def within(self, seconds: float) -> CliBackend:
        """The same cluster, asked with at most so many seconds left for a question."""
        other = copy.copy(self)
        other._deadlines = replace(self._deadlines, query=min(seconds, self._deadlines.query))
        return other

    # -- asking -------------------------------------------------------------------------------------------------------

    def info(self) -> ClusterInfo:
        """Release, timers and reach of the cluster, from `scontrol show config`."""
        config = scontrol.parse_config(answer(self._ask("scontrol", *self._clusters, "show", "config")).text)
        version = config.get("SLURM_VERSION", "")
        if not version:
            raise NoInformation("scontrol show config gave no release")
        storage = config.get("AccountingStorageType", "")
        accounting = self._has_accounting
        return ClusterInfo(
            name=config.get("ClusterName", self.name),
            version=version,
            min_job_age=_seconds(config.get("MinJobAge", ""), 300),
            message_timeout=_seconds(config.get("MessageTimeout", ""), 10),
            accounting=storage.endswith("slurmdbd") if accounting is None else accounting,
        )

    def queue(self, user: str | None) -> Sequence[Job]:
        """Every job that the controller remembers, of one user or of everybody."""
        marks = Marks.fresh()
        reply = answer(self._ask("squeue", *self._clusters, *squeue.arguments(marks, user)))
        return squeue.parse(reply.text, marks, self.name)

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        """Attempts as accounting recorded them, by raw ids or since a time."""
        if self._has_accounting is False:
            raise NoInformation(f"the cluster {self.name} is used without accounting")
        if since is None:
            wanted = set(job_ids)
            jobs = [job for ids in sacct.chunks(wanted) for job in self._sacct("--allusers", f"--jobs={ids}")]
            # The id of an array or a het job brings all its parts: only those asked for are the answer.
            return [job for job in jobs if job.job_id in wanted]
        who = "--allusers" if user is None else f"--user={user}"
        jobs = list(self._sacct(who, f"--starttime={sacct.window(since)}"))
        return [job for job in jobs if not job_ids or job.job_id in job_ids]

    def named(self, shown: str) -> Sequence[Job]:
        """Attempts of the one job, array task (`123_4`) or het component (`123+1`) that people call so, oldest first.

        Beside the protocol, for people's commands: a daemon asks by raw ids. Raises `NoInformation`.
        """
        if self._has_accounting is False:
            raise NoInformation(f"the cluster {self.name} is used without accounting")
        return [job for job in self._sacct("--allusers", f"--jobs={shown}") if job.shown_id == shown]

    def job(self, job_id: int) -> Job | None:
        """One job as the controller has it."""
        reply = self._ask("scontrol", *self._clusters, "--details", "show", "job", str(job_id))
        if reply.says_absent:
            return None
        jobs = scontrol.parse_jobs(answer(reply).text, self.name)
        if not jobs:
            raise NoInformation(f"scontrol show job {job_id} gave no record")
        return next((job for job in jobs if job.job_id == job_id), None)

    def script(self, job_id: int) -> bytes | None:
        """The batch script that the controller has for a job."""
        reply = self._ask("scontrol", *self._clusters, "write", "batch_script", str(job_id), "-")
        if reply.code != 0 or reply.errors or "retrieval failed" in reply.stderr:
            if reply.says_absent or gone(reply.stderr):
                return None
            if not unanswered(reply.stderr) and reply.code >= 0 and reply.stderr.strip():
                return None  # no batch job, or somebody else's: the controller answered and gives none
            raise NoInformation(f"scontrol write batch_script {job_id} failed: {reply.complaint()}")
        return reply.stdout or None

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        """States and reasons of the nodes (`scontrol show node`, for sinfo does not know the boot time)."""
        reply = self._ask("scontrol", *self._clusters, "show", "node", *([compress(names)] if names else []))
        unknown = re.findall(r"^Node (\S+) not found$", reply.text, re.MULTILINE)
        if not unknown:
            answer(reply)
        found = scontrol.parse_nodes(reply.text)
        if not found and not unknown and "No nodes in the system" not in reply.text:
            raise NoInformation("scontrol show node gave no record")
        return found

    # -- acting -------------------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> int:
        """Run sbatch with exactly the environment of the submission, and this cluster's SLURM_CONF."""
        environment = dict(submission.environment)
        if self._conf:
            environment["SLURM_CONF"] = self._conf
        if not os.path.isdir(submission.directory or "."):
            raise Refused(f"the working directory {submission.directory} is missing", Refusal.PERSON)
        program = self._program("sbatch")
        try:
            reply = self._run(
                [program, *sbatch.arguments(submission, self._clusters)],
                environment=environment,
                deadline=self._deadlines.submit,
                cwd=submission.directory or None,
                umask=submission.umask,
            )
        except process.TimedOut as late:
            raise SubmitUncertain(f"{late}: the controller may have accepted the job") from late
        return sbatch.job_id(reply)

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        """scancel of just this job; of an array's task only the task."""
        target = self._target(job_id)
        if target is None:
            return
        options = [f"--signal={signal}", "--full"] if signal else []
        options += ["--state=PENDING"] if pending_only else []
        reply = self._ask("scancel", *self._clusters, *options, target, deadline=self._deadlines.act)
        _carried_out(reply, f"cancelling job {job_id}", gone_is_fine=True)

    def hold(self, job_id: int) -> None:
        """scontrol uhold."""
        self._scontrol("uhold", job_id, f"holding job {job_id}")

    def release(self, job_id: int) -> None:
        """scontrol release."""
        self._scontrol("release", job_id, f"releasing job {job_id}")

    def requeue(self, job_id: int) -> None:
        """scontrol requeue."""
        self._scontrol("requeue", job_id, f"requeueing job {job_id}")

    # -- looking into a running job -----------------------------------------------------------------------------------

    def probe(self, job: Job, program: bytes, words: Sequence[str]) -> str:
        """One srun step beside the job's own."""
        nodes = len(job.nodes)
        if not nodes:
            raise NoInformation(f"job {job.shown_id} has no nodes to look at")
        try:
            reply = self._run(
                [self._program("srun"), *self._clusters, *probing.arguments(job.job_id, nodes, words)],
                environment=self._environment,
                deadline=self._deadlines.probe,
                stdin=program,
            )
        except process.TimedOut as late:
            if STEP_LABEL.encode() in late.printed:
                return late.printed.decode("utf-8", "replace")
            raise
        if STEP_LABEL.encode() in reply.stdout:
            return reply.stdout.decode("utf-8", "replace")
        said = reply.stderr.strip()
        if unanswered(said) or reply.code < 0 or not said:
            raise NoInformation(f"looking into job {job.shown_id}: {reply.complaint()}")
        raise Refused(f"looking into job {job.shown_id} was refused: {reply.complaint()}", calls_for(said))

    def usage(self, job: Job) -> Sequence[StepUsage]:
        """sstat of all steps; what it prints for them counts also where it complains about one."""
        if self._clusters:
            raise NoInformation(f"sstat asks its own cluster alone, not {self.name}")
        reply = self._ask("sstat", *probing.sstat_arguments(job.job_id))
        found = probing.parse_usage(reply.text)
        if not found:
            raise NoInformation(f"sstat gave nothing of job {job.shown_id}: {reply.complaint()}")
        return found

    # -- inside -------------------------------------------------------------------------------------------------------

    def _sacct(self, *choice: str) -> Sequence[Job]:
        if self._fields is None:
            self._fields = sacct.known_fields(answer(self._ask("sacct", "--helpformat")).text)
        mark = Marks.fresh().field
        reply = self._ask("sacct", *self._clusters, *sacct.arguments(self._fields, mark), *choice)
        if "Invalid field requested" in reply.stderr:
            self._fields = None  # the release changed under us: read the list anew next time
        return sacct.parse(answer(reply).text, mark, self._fields or (), self.name)

    def _scontrol(self, verb: str, job_id: int, doing: str) -> None:
        target = self._target(job_id)
        if target is None:
            raise Refused(f"{doing}: the controller does not know the job any more", Refusal.PERSON)
        reply = self._ask("scontrol", *self._clusters, verb, target, deadline=self._deadlines.act)
        _carried_out(reply, doing, gone_is_fine=False)

    def _target(self, job_id: int) -> str | None:
        """How a command must name the job so that it means this one alone.

        The raw id of an array's last task is the id of the whole array: `scancel 29` ends all of it, `29_4` one task.
        A het job is one job to Slurm, named by its leader.
        """
        job = self.job(job_id)
        if job is None:
            return None
        return str(job.het_job_id) if job.het_job_id is not None else job.shown_id

    def _ask(self, program: str, *arguments: str, deadline: float | None = None) -> Reply:
        return self._run(
            [self._program(program), *arguments],
            environment=self._environment,
            deadline=self._deadlines.query if deadline is None else deadline,
        )

    def _program(self, program: str) -> str:
        if self._bin_dir:
            return os.path.join(self._bin_dir, program)
        found = shutil.which(program, path=self._environment.get("PATH"))
        if found is None:
            raise NoInformation(f"{program} is not on PATH: is this a Slurm login node?")
        return found


def _carried_out(reply: Reply, doing: str, *, gone_is_fine: bool) -> None:
    said = reply.stderr.strip()
    if reply.code == 0 and not reply.errors:
        return
    if unanswered(said) or reply.code < 0 or not said:
        raise NoInformation(f"{doing}: {reply.complaint()}")
    if gone_is_fine and gone(said):
        return
    raise Refused(f"{doing} was refused: {reply.complaint()}", calls_for(said))


def _seconds(text: str, default: int) -> int:
    """`15 sec` of the configuration."""
    number = text.split()[0] if text.split() else ""
    return int(number) if number.isdigit() else default
