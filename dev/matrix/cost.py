"""What one poll costs by either backend, with many jobs in the controller: CPU time and memory, as a ratio in one run."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chainwatch.slurm import CliBackend
from chainwatch.slurm.process import Reply, client_environment
from chainwatch.slurm.pyslurm import PyslurmBackend, Worker
from dev.slurm import PrivateCluster

JOBS = 5000
ARRAY = 1000
"""MaxArraySize is 1001."""
ROUNDS = 5
MOST_ROUNDS = 30
"""Jobs of the cases before may still end in some of them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One poll: the best of some rounds."""

    seconds: float
    """CPU time: of the client or of the worker, and of reading what it says."""
    bytes: int
    """Most memory of the client or of the worker."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One poll by either backend, of the same jobs."""

    jobs: int
    tools: Cost
    library: Cost

    def sentence(self) -> str:
        """For people."""
        time_ratio = self.library.seconds / self.tools.seconds
        memory = self.library.bytes / self.tools.bytes
        return (
            f"one poll of {self.jobs} jobs takes {self.tools.seconds:.2f} s of CPU time and {self.tools.bytes >> 20} MiB "
            f"by squeue; by pyslurm {time_ratio:.1f} times the time and {memory:.1f} times the memory"
        )


def compare(cluster: PrivateCluster, python: str) -> Comparison:
    """Fill the controller with held jobs, and poll it by both backends."""
    fill(cluster)
    tools = _by_tools(cluster)
    library = _by_library(cluster, python)
    cluster.cancel_all()
    return Comparison(JOBS, tools, library)


def fill(cluster: PrivateCluster) -> None:
    """`JOBS` held jobs, each with a record of its own: changing some tasks of an array splits it."""
    for _ in range(JOBS // ARRAY):
        array = cluster.sbatch("true", "--hold", f"--array=0-{ARRAY - 1}", "--job-name=many")
        cluster.run("scontrol", "update", f"JobId={array}_[0-{ARRAY - 2}]", "Comment=one of many", timeout=300)


class _Metered:
    """Runs clients, and keeps what the last one used. See `chainwatch.slurm.process.run`."""

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = 0.0
        self.bytes = 0

    def __call__(
        self, command: Sequence[str], *, environment: Mapping[str, str], deadline: float, **_: object
    ) -> Reply:
        self.runs += 1
        begun = time.monotonic()
        child = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stderr is not None
        out, most = b"", 0
        while part := os.read(child.stdout.fileno(), 2**16):
            out += part
            # While it prints it has all jobs in memory. (Its ru_maxrss would be that of this Python, which forked it.)
            most = max(most, _most_memory(child.pid))
        err = child.stderr.read()
        status, used = os.wait4(child.pid, 0)[1:]
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
        child.stderr.close()
        self.seconds, self.bytes = used.ru_utime + used.ru_stime, most
        return Reply(tuple(command), child.returncode, out, err.decode(), time.monotonic() - begun)


def _by_tools(cluster: PrivateCluster) -> Cost:
    client = _Metered()
    bare = min(_metered(client, cluster, "squeue", "--version") for _ in range(ROUNDS))
    backend = _tools(cluster, client)
    costs = []
    for _ in range(ROUNDS):
        before = _own()
        found = len(backend.queue(None))
        if found < JOBS:
            raise RuntimeError(f"squeue shows {found} of {JOBS} jobs")
        # Getting into the chroot is none of squeue's cost.
        costs.append(Cost(_own() - before + client.seconds - bare, client.bytes))
    return min(costs, key=lambda cost: cost.seconds)


def _by_library(cluster: PrivateCluster, python: str) -> Cost:
    worker = Worker(python, client_environment(cluster.env, str(cluster.conf)))
    client = _Metered()
    backend = PyslurmBackend(_tools(cluster, client), worker, insist=True, say=lambda sentence: None)
    try:
        backend.queue(None)  # the process starts
        process = worker.pid
        costs: list[Cost] = []
        for _ in range(MOST_ROUNDS):
            asked, before = client.runs, _own() + _of(process)
            found = len(backend.queue(None))
            cost = Cost(_own() + _of(process) - before, _most_memory(process))
            if found < JOBS:
                raise RuntimeError(f"pyslurm shows {found} of {JOBS} jobs")
            if backend.stands_in:
                raise RuntimeError(backend.stands_in)
            if client.runs == asked:  # else a job had ended since the poll before, and the tools told how
                costs.append(cost)
            if len(costs) == ROUNDS:
                break
        else:
            raise RuntimeError(
                f"pyslurm alone answered {len(costs)} of {MOST_ROUNDS} polls, though no job ends any more"
            )
    finally:
        backend.close()
    return min(costs, key=lambda cost: cost.seconds)


def _tools(cluster: PrivateCluster, client: _Metered) -> CliBackend:
    commands = str(cluster.layout.commands)
    return CliBackend(cluster.name, str(cluster.conf), commands, environment=cluster.env, run=client)


def _metered(client: _Metered, cluster: PrivateCluster, program: str, *arguments: str) -> float:
    client([str(cluster.layout.commands / program), *arguments], environment=cluster.env, deadline=60)
    return client.seconds


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _most_memory(pid: int) -> int:
    """Bytes; 0 of a process that has given its memory back."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
