"""The nodes of a simulated cluster: what the controller believes of them, and what they really do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chainwatch.model.clock import at_epoch
from chainwatch.model.job import Node
from chainwatch.simulation.process import Process
from chainwatch.simulation.settings import NodeSpec


@dataclass(slots=True, eq=False)
class SimNode:
    """One node."""

    spec: NodeSpec
    booted: float
    jobs: dict[int, tuple[int, Process]] = field(default_factory=dict)
    """Jobs that hold CPUs here, by id: how many, and the job's processes."""
    completing: set[int] = field(default_factory=set)
    orphans: list[Process] = field(default_factory=list)
    """Processes of jobs that the controller has given up: they live on until slurmd is back."""
    answers: bool = True
    """slurmd is alive."""
    silent: bool = False
    """The controller has noticed that it does not answer."""
    down: bool = False
    drained: bool = False
    reason: str = ""
    reason_at: float | None = None
    faulty: bool = False
    """Programs that care crash on it (bad memory, a sick GPU). Slurm does not know."""

    @property
    def name(self) -> str:
        """NodeName."""
        return self.spec.name

    @property
    def usable(self) -> bool:
        """The controller would start a job here."""
        return not (self.down or self.drained or self.silent)

    def free_cpus(self, without: Iterable[int] = ()) -> int:
        """CPUs that no job holds, if the jobs `without` were gone."""
        gone = set(without)
        return self.spec.cpus - sum(cpus for job_id, (cpus, _) in self.jobs.items() if job_id not in gone)

    def fits(self, cpus: int | None, without: Iterable[int] = ()) -> bool:
        """A job of so many CPUs (None: the whole node) has room."""
        free = self.free_cpus(without)
        return free >= (self.spec.cpus if cpus is None else cpus)

    def view(self, partition: str) -> Node:
        """As sinfo shows it."""
        held = self.free_cpus() < self.spec.cpus
        if self.down:
            state = "down"
        elif held and self.completing and set(self.jobs) <= self.completing:
            state = "completing"
        elif held:
            state = "allocated" if self.free_cpus() <= 0 else "mixed"
        else:
            state = "idle"
        flags = {"not_responding"} if self.silent else set()
        return Node(
            name=self.name,
            state=state,
            flags=frozenset(flags | ({"drain"} if self.drained else set())),
            reason=self.reason,
            reason_by="root" if self.reason else "",
            reason_at=None if self.reason_at is None else at_epoch(int(self.reason_at)),
            booted_at=at_epoch(int(self.booted)),
            partitions=(partition,),
        )
