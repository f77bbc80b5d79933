"""How a simulated cluster is built and how it behaves: timers, quirks of releases, nodes, QOS.

The defaults are what was measured on real Slurm 22.05, 24.11 and 26.05 (seconds), with the lab's short timers replaced
by those that sites use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class PreemptMode(StrEnum):
    """What happens to a preempted job once its grace time is over."""

    CANCEL = "CANCEL"
    REQUEUE = "REQUEUE"


@dataclass(frozen=True, slots=True)
class Qos:
    """One quality of service."""

    name: str
    priority: int = 100
    preempts: frozenset[str] = frozenset()
    """Names of the QOS whose jobs this one may push aside."""
    mode: PreemptMode = PreemptMode.CANCEL
    grace: float = 0.0
    """Seconds between the first SIGTERM (to the steps) and the end."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node as slurm.conf has it."""

    name: str
    cpus: int = 8
    gpus: int = 8


def four_nodes() -> tuple[NodeSpec, ...]:
    """n1 to n4."""
    return tuple(NodeSpec(f"n{i}") for i in range(1, 5))


def usual_qos() -> tuple[Qos, ...]:
    """`normal` pushes aside `extra` (cancelled after 120 s of grace) and `requeue` (requeued)."""
    return (
        Qos("normal", 100, frozenset({"extra", "requeue"})),
        Qos("extra", 1, grace=120.0),
        Qos("requeue", 1, mode=PreemptMode.REQUEUE, grace=120.0),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All that can be chosen about a simulated cluster. Times are seconds."""

    name: str = "sim"
    release: str = "22.05.8"
    nodes: tuple[NodeSpec, ...] = field(default_factory=four_nodes)
    qos: tuple[Qos, ...] = field(default_factory=usual_qos)
    default_qos: str = "normal"
    partition: str = "main"
    accounts: tuple[str, ...] = ("train",)
    users: tuple[tuple[str, int], ...] = (("ada", 1001), ("root", 0), ("bob", 1002))
    """Names and uids; the first is the one whom the daemon serves."""
    default_time_limit: float | None = 24 * 3600.0
    first_job_id: int = 1
    max_job_id: int = 67_000_000
    """The last id; then ids start again at `first_job_id`, and are reused."""
    accounting: bool = True
    comment_in_accounting: bool = False
    """AccountingStoreFlags=job_comment; without it sacct has the comment only inside SubmitLine."""

    min_job_age: float = 300.0
    purge_period: float = 30.0
    """The controller forgets what is older than min_job_age once in this time."""
    message_timeout: float = 10.0
    kill_wait: float = 30.0
    completing: float = 3.0
    """From the last process's end until the nodes are free (epilog)."""
    scheduling: float = 2.0
    """A pending job starts within this time of the moment in which it could."""
    requeue_delay: float = 121.0
    """A requeued job does not start earlier (BeginTime)."""
    grace_late: float = 14.0
    """The end of a grace time comes up to this much late (a periodic loop checks)."""
    limit_late: float = 30.0
    """A time limit is enforced up to this much late."""
    node_dead_after: tuple[float, float] = (25.0, 45.0)
    """A node that stopped answering is declared down within this span."""
    not_responding_after: float = 10.0
    accounting_lag: tuple[float, float] = (0.02, 0.7)
    """From an event until sacct shows it."""
    accounting_catch_up: float = 16.0
    """After slurmdbd's return: until what happened meanwhile is there, and until running jobs are listed again."""
    call: float = 0.1
    """What a client call that is answered takes."""
    connect_timeout: float = 9.5
    """What a client call takes to fail when the controller is down."""
    job_call_timeout: float = 19.0
    """The same for calls about one job."""

    @property
    def user(self) -> str:
        """The user whom the daemon serves."""
        return self.users[0][0]

    def uid(self, user: str) -> int:
        """Uid of a user; 65534 for strangers."""
        return dict(self.users).get(user, 65534)

    def find_qos(self, name: str) -> Qos | None:
        """The QOS of that name."""
        return next((q for q in self.qos if q.name == name), None)

    @property
    def _version(self) -> tuple[int, int]:
        year, month = self.release.split(".")[:2]
        return int(year), int(month)

    @property
    def keeps_preemption(self) -> bool:
        """A job that exits by itself within its grace is still recorded as PREEMPTED (and requeued where the QOS says
        so). 22.05 records FAILED or COMPLETED instead, and requeues nothing."""
        return self._version >= (24, 11)

    @property
    def keeps_large_codes(self) -> bool:
        """sacct shows exit code 137 as 137. Releases before 25.05 take 128 off and show 9."""
        return self._version >= (25, 5)

    @property
    def shows_submit_line(self) -> bool:
        """scontrol shows SubmitLine, and sacct Restarts and FailedNode (from 24.11)."""
        return self._version >= (24, 11)

    @property
    def refuses_lost_dependencies(self) -> bool:
        """sbatch refuses afterok and afternotok of a job that the controller does not know (from 23.02). Older releases
        take such a dependency as met; `afterany` is taken as met by all."""
        return self._version >= (23, 2)
