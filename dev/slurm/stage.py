"""The private cluster as a stage of the contract: real daemons, real jobs, real outages."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from chainwatch.slurm import Backend, CliBackend, Deadlines, NoInformation
from chainwatch.slurm.contract import Broken, Can, Program
from chainwatch.slurm.process import client_environment
from chainwatch.slurm.pyslurm import PyslurmBackend, Worker
from dev.slurm.cluster import PrivateCluster

T = TypeVar("T")
DAEMONS = {
    Can.CONTROLLER_DOWN: "slurmctld",
    Can.ACCOUNTING_DOWN: "slurmdbd",
    Can.AUTHENTICATION_DOWN: "munged",
}
CLIENTS = ("squeue", "sacct", "scontrol", "scancel", "sbatch", "srun", "sstat")

_WRAPPER = """#!/bin/bash
# sbatch, which loses its request or its reply while a file says so.
case "$(cat {switch} 2>/dev/null)" in
    before) exec sleep 600 ;;
    after) {sbatch} "$@" >/dev/null; exec sleep 600 ;;
esac
exec {sbatch} "$@"
"""


class RealStage:
    """See `chainwatch.slurm.contract.Stage`."""

    can: frozenset[Can] = frozenset(Can)

    def __init__(
        self, cluster: PrivateCluster, user: str, pyslurm: str | None = None, conf: Path | None = None
    ) -> None:
        """`pyslurm` is a Python that has it: the backend is then the one by pyslurm.

        `conf` is the slurm.conf of another cluster, from which this one is reached by --clusters.
        """
        self._conf = conf
        if conf is not None:
            self.can -= {Can.MEASURE}  # sstat asks no other cluster
        if not cluster.settings.accounting:
            self.can -= {Can.ACCOUNTING, Can.ACCOUNTING_DOWN, Can.PREEMPT, Can.PREEMPT_REQUEUE, Can.SUBMIT_LIMIT}
        if "munged" not in cluster.daemons:
            self.can -= {Can.AUTHENTICATION_DOWN, Can.ACCOUNTING_DOWN}  # they are another cluster's
        self.cluster = cluster
        self.user = user
        self.directory = str(cluster.root / "contract")
        Path(self.directory).mkdir(exist_ok=True)
        self._programs = cluster.root / "bin"
        self._switch = cluster.root / "sbatch-loses"
        losing_clients(self._programs, self._switch, self.cluster.env["PATH"])
        self.said: list[str] = []
        """What the backend by pyslurm said: each time that the tools stepped in."""
        self.environment = tuple((name, os.environ[name]) for name in ("PATH", "HOME", "USER") if name in os.environ)
        self.backend: Backend = self.make_backend() if pyslurm is None else self._by_pyslurm(pyslurm)
        self._written = 0

    def make_backend(self, **choices: object) -> CliBackend:
        """A backend of this cluster with deadlines that suit its short time-outs."""
        deadlines = Deadlines(query=30, act=30, submit=5)
        given = {"deadlines": deadlines, "bin_dir": str(self._programs), **choices}
        if self._conf is not None:
            given = {"by_clusters_option": True, **given}
        return CliBackend(self.cluster.name, str(self._conf or self.cluster.conf), **given)  # type: ignore[arg-type]

    def _by_pyslurm(self, python: str) -> PyslurmBackend:
        environment = client_environment(self.cluster.env, str(self.cluster.conf))
        return PyslurmBackend(
            self.make_backend(), Worker(python, environment), insist=True, rest=5, say=self.said.append
        )

    def now(self) -> datetime:
        return datetime.now(UTC)

    def write(self, program: Program) -> str:
        self._written += 1
        path = Path(self.directory) / f"job{self._written}.sh"
        path.write_text(batch_script(program))
        return str(path)

    def wait_until(self, question: Callable[[], T | None], seconds: float, what: str) -> T:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(NoInformation):
                answer = question()
                if answer is not None:
                    return answer
            if time.monotonic() > deadline:
                raise Broken(f"not within {seconds:g} s: {what}")
            time.sleep(0.3)

    def preemptable(self, *, requeue: bool) -> tuple[str, ...]:
        return ("--qos=extra-requeue",) if requeue else ("--qos=extra",)

    def preempt(self, job_id: int) -> None:
        job = next(job for job in self.backend.queue(None) if job.job_id == job_id)
        node = job.nodes[0]
        others = [o for o in self.backend.queue(None) if node in o.nodes and o.state.on_nodes and o.job_id != job_id]
        cpus = self.cluster.settings.cpus - sum(other.cpus or 1 for other in others)
        all_of_it = ("--nodes=1", f"--nodelist={node}", f"--ntasks={cpus}")
        self.cluster.sbatch("sleep 1", "--qos=normal", "--time=1", *all_of_it)

    def fail_node(self, node: str) -> None:
        # Without slurmd it stays down (ReturnToService=2 would bring it back at once); waiting for SlurmdTimeout, as
        # for a node that dies silently, is a test of its own.
        self.cluster.kill_slurmd(node)
        self.cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=contract test")

    def restore_node(self, node: str) -> None:
        self.cluster.revive_node(node)

    @contextlib.contextmanager
    def limit_submissions(self, number: int) -> Iterator[tuple[str, ...]]:
        self._limit(number)
        try:
            yield ("--qos=extra",)
        finally:
            self._limit(-1)

    @contextlib.contextmanager
    def outage(self, of: Can) -> Iterator[None]:
        if of in (Can.REPLY_LOST_AFTER, Can.REPLY_LOST_BEFORE):
            self._switch.write_text("after" if of is Can.REPLY_LOST_AFTER else "before")
            try:
                yield
            finally:
                self._switch.unlink()
        elif of is Can.CONTROLLER_FROZEN:
            self.cluster.freeze("slurmctld")
            try:
                yield
            finally:
                self.cluster.thaw("slurmctld")
        else:
            self.cluster.stop_daemon(DAEMONS[of])
            try:
                yield
            finally:
                self.cluster.start_daemon(DAEMONS[of])

    def _limit(self, number: int) -> None:
        self.cluster.run("sacctmgr", "-i", "modify", "qos", "extra", "set", f"MaxSubmitJobsPerUser={number}")


def losing_clients(directory: Path, switch: Path, path: str | None = None) -> None:
    """Slurm's client programs, of `path`, linked into a directory, where sbatch loses its request (`before`) or its reply
    (`after`) while the file `switch` says so. Raises RuntimeError."""
    directory.mkdir(exist_ok=True)
    for name in CLIENTS:
        real, here = shutil.which(name, path=path), directory / name
        if real is None:
            raise RuntimeError(f"{name} is not installed")
        if name == "sbatch":
            here.write_text(_WRAPPER.format(switch=shlex.quote(str(switch)), sbatch=real))
            here.chmod(0o755)
        elif not here.exists():
            here.symlink_to(real)


def batch_script(program: Program) -> str:
    """The bash script that does what the program says."""
    lines = ["#!/bin/bash"]
    lines += [f"srun --ntasks=1 bash -c 'exit {code}'" for code in program.steps]
    main = _main(program)
    if program.in_step:
        lines += [f"srun --ntasks=1 bash -c {shlex.quote(main)}", "exit $?"]
    else:
        lines += [main]
    return "\n".join(lines) + "\n"


def _main(program: Program) -> str:
    lines = ["trap '' TERM"] if program.deaf else []
    lines += [f"trap 'kill $child 2>/dev/null; exit {code}' {name}" for name, code in program.on]
    if program.seconds:
        lines += [f"sleep {program.seconds} & child=$!", "wait $child"]
    lines += [f"kill -{program.killed_by} $$" if program.killed_by else f"exit {program.code}"]
    return "\n".join(lines)
