"""How jobs start in the simulated slurmctld: who is next, where there is room, and the launch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from chainwatch.model.job import JobState
from chainwatch.simulation import scheduling
from chainwatch.simulation.ending import Ending
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.nodes import SimNode
from chainwatch.simulation.process import Launch, Process
from chainwatch.simulation.runs import Run
from chainwatch.simulation.views import output_path


class Starting(Ending):
    """Starts jobs."""

    def kick(self) -> None:
        """Something changed: look for room soon."""
        if not self._scheduling:
            self._scheduling = True
            self.clock.after(self.random.uniform(0.1, self.settings.scheduling), self.later(self._schedule))

    def _schedule(self) -> None:
        self._scheduling = False
        taken: set[str] = set()
        nodes = list(self.nodes.values())
        for job in scheduling.in_order(self.jobs.values(), self.settings):
            if job.het_offset:
                continue  # its leader brings it along
            while job.pending and all(self._judge(one) for one in self._whole(job)):
                room = self._room(job, nodes, taken)
                if isinstance(room, list):
                    for component, place in zip(self._whole(job), room, strict=True):
                        self._start(component, place)
                    continue
                if isinstance(room, scheduling.PushAside):
                    job.reason = "Priority" if taken else "Resources"
                    for victim in room.victims:
                        self.preempt(victim)
                    taken |= room.wanted
                else:
                    job.reason = room.reason
                break

    def _room(
        self, job: SimJob, nodes: list[SimNode], taken: Collection[str]
    ) -> list[tuple[SimNode, ...]] | scheduling.PushAside | scheduling.Blocked:
        """Nodes for the job, for each het component apart; or why there are none."""
        places: list[tuple[SimNode, ...]] = []
        for component in self._whole(job):
            used = {n.name for place in places for n in place}
            room = scheduling.find_room(component, nodes, used | set(taken), self.jobs.values(), self.settings)
            if not isinstance(room, scheduling.Place):
                return room
            places.append(room.nodes)
        return places

    def _judge(self, job: SimJob) -> bool:
        """Whether a pending job may start; otherwise its reason is set."""
        blocked = scheduling.not_before(job, self.clock.time, self.records, self.jobs.values())
        if blocked is None:
            job.dependency = ""
            if job.eligible is None:
                job.eligible = self.clock.time
                self._record(job)
            return True
        job.reason, job.dependency = blocked.reason, blocked.dependency
        if blocked.reason == "DependencyNeverSatisfied" and job.request.kill_on_invalid_dependency:
            self._cancel_pending(job, None)
        return False

    def _start(self, waiting: SimJob, nodes: Iterable[SimNode]) -> None:
        job = self._split(waiting)
        now = self.clock.time
        nodes = tuple(nodes)
        job.state, job.reason, job.start, job.end = JobState.RUNNING, "None", now, None
        job.nodes = tuple(n.name for n in nodes)
        request = job.request
        job.cpus = sum(n.spec.cpus if request.cpus is None else request.cpus for n in nodes)
        launch = Launch(
            job_id=job.job_id,
            submitted=job.submitted,
            restarts=job.restarts,
            array_task=job.task,
            nodes=job.nodes,
            script=request.script,
            args=request.args,
            environment=_job_environment(job),
            directory=request.directory,
            stdout=output_path(request.stdout, job),
        )
        run = Run(
            job.job_id, math.floor(job.submitted), request.name, request.script, job.nodes, now, request.comment,
            restarts=job.restarts,
        )  # fmt: skip
        process = Process(self.clock, launch, run, lambda p: self._process_ended(job, run, p))
        job.run, job.process = run, process
        self.runs.append(run)
        for node in nodes:
            node.jobs[job.job_id] = (node.spec.cpus if request.cpus is None else request.cpus, process)
        self._record(job)
        if request.time_limit is not None:
            late = self.random.uniform(0, self.settings.limit_late)
            out_of_time = self.later(lambda: self._out_of_time(job, run))
            job.timers.append(self.clock.after(request.time_limit + late, out_of_time))
            if request.signal:
                warn = self.later(lambda: self._warn(job, run))
                job.timers.append(self.clock.after(max(0.0, request.time_limit - request.signal_before), warn))
        self.clock.after(0.1, lambda: process.start(job.program) if process.alive else None)
        for told in self.starts:
            told()

    def _split(self, job: SimJob) -> SimJob:
        """The record of the next task of an array. The last task keeps the array's own raw id."""
        if not job.tasks:
            return job
        if len(job.tasks) == 1:
            (job.task,), job.tasks = job.tasks, ()
            return job
        task = SimJob(self._new_id(), job.request, job.program, job.submitted)
        task.array_job_id, task.begin, task.eligible = job.array_job_id, job.begin, job.eligible
        task.task, job.tasks = job.tasks[0], job.tasks[1:]
        self.jobs[task.job_id] = task
        self._record(job)
        return task


def _job_environment(job: SimJob) -> dict[str, str]:
    own = {"SLURM_JOB_ID": str(job.job_id), "SLURM_JOB_NAME": job.request.name}
    if job.restarts:
        own["SLURM_RESTART_COUNT"] = str(job.restarts)
    if job.task is not None:
        own |= {"SLURM_ARRAY_TASK_ID": str(job.task), "SLURM_ARRAY_JOB_ID": str(job.array_job_id)}
    return {**job.request.environment, **own}
