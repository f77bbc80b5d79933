"""Which pending job starts where, and whom it pushes aside. Pure: looks at jobs and nodes, changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from chainwatch.model.job import JobState
from chainwatch.simulation.dependency import Lookup, Met, remaining
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.nodes import SimNode
from chainwatch.simulation.settings import Settings

NO_NODES = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@dataclass(frozen=True, slots=True)
class Blocked:
    """It does not start now. `dependency` is what of its dependency is left."""

    reason: str
    dependency: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """It starts on these nodes."""

    nodes: tuple[SimNode, ...]


@dataclass(frozen=True, slots=True)
class PushAside:
    """It waits for the nodes of these jobs, which are to be preempted (none where they are on their way out)."""

    victims: tuple[SimJob, ...]
    wanted: frozenset[str]
    """Nodes that jobs of lower priority must not take meanwhile."""


def in_order(jobs: Iterable[SimJob], settings: Settings) -> list[SimJob]:
    """Pending jobs, the most urgent first."""

    def rank(job: SimJob) -> tuple[int, int]:
        qos = settings.find_qos(job.request.qos)
        return -(qos.priority if qos else 0), job.job_id

    return sorted((j for j in jobs if j.pending), key=rank)


def not_before(job: SimJob, now: float, lookup: Lookup, jobs: Collection[SimJob]) -> Blocked | None:
    """Why a job may not start yet, whatever room there is; None where it may."""
    if job.hold:
        return Blocked("JobHeldUser" if job.hold == "user" else "JobHeldAdmin", job.dependency)
    if job.hold_reason:
        return Blocked(job.hold_reason, job.dependency)
    met, left = remaining(job, lookup, jobs)
    if met is Met.NEVER:
        return Blocked("DependencyNeverSatisfied", left)
    if met is Met.NOT_YET:
        return Blocked("Dependency", left)
    if now < job.begin:
        return Blocked("BeginTime")
    limit = job.request.task_limit
    if limit and job.array_job_id is not None:
        running = sum(j.state is JobState.RUNNING and j.array_job_id == job.array_job_id for j in jobs)
        if running >= limit:
            return Blocked("JobArrayTaskLimit")
    return None


def find_room(
    job: SimJob, nodes: Sequence[SimNode], taken: Collection[str], jobs: Collection[SimJob], settings: Settings
) -> Place | PushAside | Blocked:
    """Where a job that may start finds room. `taken`: nodes that a more urgent job waits for."""
    request = job.request
    wanted = len(request.nodelist) or request.nodes
    allowed = [
        n
        for n in nodes
        if n.name not in request.exclude and (not request.nodelist or n.name in request.nodelist)
        if n.spec.cpus >= (request.cpus or 0)
    ]
    if len(allowed) < wanted:
        return Blocked("PartitionConfig")
    up = [n for n in allowed if n.usable]
    if len(up) < wanted:
        return Blocked(NO_NODES)
    room = [n for n in up if n.name not in taken]
    free = [n for n in room if n.fits(request.cpus)]
    if len(free) >= wanted:
        return Place(tuple(free[:wanted]))
    victims = _victims(job, room, wanted, jobs, settings)
    return PushAside(victims, frozenset(n.name for n in room))


def _victims(
    job: SimJob, room: Sequence[SimNode], wanted: int, jobs: Collection[SimJob], settings: Settings
) -> tuple[SimJob, ...]:
    """The fewest nodes' worth of jobs whose end makes room; empty where no preemption helps."""
    qos = settings.find_qos(job.request.qos)
    if qos is None or not qos.preempts:
        return ()
    leaving = {j.job_id for j in jobs if j.completing or j.preempted_at is not None}
    weak = {j.job_id: j for j in jobs if j.state is JobState.RUNNING and j.request.qos in qos.preempts}
    chosen: dict[int, SimJob] = {}
    fitting = 0
    for node in sorted(room, key=lambda n: not n.fits(job.request.cpus, leaving)):
        if fitting == wanted:
            break
        if node.fits(job.request.cpus, leaving | chosen.keys()):
            fitting += 1
        elif node.fits(job.request.cpus, leaving | weak.keys()):
            fitting += 1
            chosen.update({i: weak[i] for i in node.jobs if i in weak and i not in leaving})
    return tuple(chosen.values()) if fitting == wanted else ()
