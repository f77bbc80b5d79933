"""The simulated slurmctld: the life of every job from sbatch until it is forgotten."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random

from chainwatch.model.clock import at_epoch
from chainwatch.model.job import ExitCode, JobState
from chainwatch.simulation import dependency, scheduling
from chainwatch.simulation.clock import Event, VirtualClock
from chainwatch.simulation.database import Database
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.nodes import SimNode
from chainwatch.simulation.process import Launch, Process, Script, batch
from chainwatch.simulation.runs import Run
from chainwatch.simulation.sbatch import Request
from chainwatch.simulation.settings import PreemptMode, Settings
from chainwatch.simulation.views import output_path, seen_in_accounting
from chainwatch.slurm.backend import Refusal, Refused

Listener = Callable[[SimJob, JobState], None]
"""Told of every end of an attempt, with the state that it is recorded under."""


class Controller:
    """Queue, scheduler and memory. While it is not `up` (stopped or frozen), what it should do waits until it is."""

    def __init__(self, clock: VirtualClock, settings: Settings, random: Random, database: Database) -> None:
        self.clock, self.settings, self.random, self.database = clock, settings, random, database
        self.nodes = {spec.name: SimNode(spec, clock.time) for spec in settings.nodes}
        self.jobs: dict[int, SimJob] = {}
        """Every job that is remembered, by raw id."""
        self.runs: list[Run] = []
        """The truth about every attempt that ever started, oldest first."""
        self.accepted: list[tuple[float, int, Request]] = []
        """Every submission that was accepted: when, under which id, and what."""
        self.listeners: list[Listener] = []
        self.starts: list[Event] = []
        """Called at every start of a job."""
        self.arrivals: list[Callable[[SimJob], None]] = []
        """Told of every job that is accepted, before anything becomes of it."""
        self.up = True
        self.partition_up = True
        self.submit_limits: dict[str, int] = {}
        """Jobs that one user may have in the queue of a QOS (MaxSubmitJobs), `""` for all; more are refused."""
        self._next_id = settings.first_job_id
        self._scheduling = False
        self._deferred: list[Event] = []

    # -- requests --------------------------------------------------------------------------------------------------

    def submit(self, requests: Sequence[Request], program: Script) -> int:
        """Take a job (with several requests: a het job) into the queue; its raw id, of an array the array's.

        Raises `Refused`.
        """
        if not self.partition_up:
            raise Refused(f"{_SBATCH} Required partition not available (inactive or drain)", Refusal.WAIT)
        for request in requests:
            self._check_limits(request)
            lost = {"afterok", "afternotok"} & dependency.kinds_of_lost(request.dependency, self.records)
            if lost and self.settings.refuses_lost_dependencies:
                raise Refused(f"{_SBATCH} Job dependency problem", Refusal.PERSON)
        now = self.clock.time
        components: list[SimJob] = []
        for offset, request in enumerate(requests):
            job = SimJob(self._new_id(), request, program if offset == 0 else batch(None), now)
            job.dependency, job.tasks, job.het_offset = request.dependency, request.tasks, offset
            job.array_job_id = job.job_id if request.tasks else None
            job.begin = now + request.begin
            job.hold = "user" if request.hold else ""
            self.jobs[job.job_id] = job
            components.append(job)
            self.accepted.append((now, job.job_id, request))
            for told in self.arrivals:
                told(job)
            if request.begin:
                self.clock.at(job.begin, self.kick)
        for job in components:
            job.het_job_id = components[0].job_id if len(components) > 1 else None
            self._judge(job)
            self._record(job)
        self.kick()
        return components[0].job_id

    def cancel(self, job_id: int, uid: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        """Cancel one record (a job, a task, the rest of an array) for the user `uid`; an unknown id is no error."""
        for job in self._only(job_id):
            if signal is not None:
                if job.state is JobState.RUNNING and job.process is not None and not pending_only:
                    job.process.signal(signal, batch=True)
            elif job.pending:
                for one in self._whole(job):
                    self._cancel_pending(one, uid)
            elif pending_only:
                continue
            elif job.completing and job.state is JobState.PENDING:
                job.doomed = uid
            elif job.state is JobState.RUNNING:
                self._kill(job, JobState.CANCELLED, by=uid)

    def cancel_all(self, job_id: int, uid: int) -> None:
        """scancel by the id as people type it: of an array's id, the whole array."""
        for job in self.records(job_id):
            self.cancel(job.job_id, uid)

    def hold(self, job_id: int, by: str = "user") -> None:
        """scontrol uhold (`by` user) or hold by an admin. Raises `Refused`."""
        for job in self._known(job_id):
            if not job.pending:
                raise Refused(f"{_known_as(job_id)}: Job is no longer pending execution", Refusal.PERSON)
            job.hold = by
            self._judge(job)

    def release(self, job_id: int, *, admin: bool = False) -> None:
        """scontrol release. Raises `Refused`, also where a plain user would lift an admin's hold."""
        for job in self._known(job_id):
            if job.hold == "admin" and not admin:
                raise Refused(f"{_known_as(job_id)}: Access/permission denied", Refusal.PERSON)
            if not job.pending:
                raise Refused(f"{_known_as(job_id)}: Job is no longer pending execution", Refusal.PERSON)
            job.hold = job.hold_reason = ""
            job.reason = "None"
            self._judge(job)
            self._record(job)
        self.kick()

    def requeue(self, job_id: int, *, hold: bool = False, reason: str = "job requeued in held state") -> None:
        """scontrol requeue (with `hold`: requeuehold, or what a failed launch does). Raises `Refused`."""
        for job in self._known(job_id):
            if not job.request.requeue:
                raise Refused(f"{_known_as(job_id)}: Requested operation is presently disabled", Refusal.PERSON)
            if job.pending:
                raise Refused(f"{_known_as(job_id)}: Job is pending execution", Refusal.PERSON)
            if hold:
                job.hold_reason = reason
            if job.state is JobState.RUNNING:
                self._kill(job, JobState.REQUEUED, back=True)
            elif job.completing:
                job.restarts += job.state is not JobState.PENDING
                job.state = JobState.PENDING
            else:
                job.restarts += 1
                self._return(job)

    def preempt(self, job: SimJob) -> None:
        """Push a running job aside: SIGTERM to its steps, and the end once the grace time of its QOS is over."""
        qos = self.settings.find_qos(job.request.qos)
        if job.state is not JobState.RUNNING or job.preempted_at is not None or qos is None:
            return
        run = job.run
        job.preempted_at = self.clock.time
        if qos.grace <= 0:
            self._grace_over(job, run)
            return
        late = self.random.uniform(0, self.settings.grace_late)
        job.timers.append(self.clock.after(qos.grace + late, self.later(lambda: self._grace_over(job, run))))
        if job.process is not None:
            job.process.signal("TERM", batch=False)

    def _check_limits(self, request: Request) -> None:
        for qos, most in self.submit_limits.items():
            mine = [j for j in self.jobs.values() if j.request.user == request.user and not j.ended]
            queued = sum(max(1, len(j.tasks)) for j in mine if qos in {"", j.request.qos})
            if qos in {"", request.qos} and queued + max(1, len(request.tasks)) > most:
                raise Refused(f"{_SBATCH} {_LIMIT}", Refusal.WAIT)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def node_failed(self, node: SimNode, reason: str) -> None:
        """Declare a node down: its jobs end, or come back. Processes that cannot be reached live on as orphans."""
        node.down, node.reason, node.reason_at = True, reason, self.clock.time
        for job_id in list(node.jobs):
            job = self.jobs.get(job_id)
            process = node.jobs[job_id][1]
            if process.unreachable and process.alive:
                node.orphans.append(process)
            if job is None or job.run is None:
                continue
            if job.completing:
                self._free_soon(job, job.run)
            else:
                job.failed_node = node.name
                self._kill(job, JobState.NODE_FAIL, back=job.request.requeue)

    # -- the loop --------------------------------------------------------------------------------------------------

    def later(self, event: Event) -> Event:
        """An event that needs the controller: it waits while the controller is away."""
        return lambda: event() if self.up else self._deferred.append(event)

    def resume(self) -> None:
        """The controller works again: everything that waited happens now, in its order."""
        self.up = True
        deferred, self._deferred = self._deferred, []
        for event in deferred:
            event()
        self.kick()

    def kick(self) -> None:
        """Something changed: look for room soon."""
        if not self._scheduling:
            self._scheduling = True
            self.clock.after(self.random.uniform(0.1, self.settings.scheduling), self.later(self._schedule))

    def records(self, job_id: int) -> list[SimJob]:
        """All records that an id means: the job, and every task of the array of that id."""
        tasks = [j for j in self.jobs.values() if j.array_job_id == job_id and j.job_id != job_id]
        return ([self.jobs[job_id]] if job_id in self.jobs else []) + tasks

    def _only(self, job_id: int) -> list[SimJob]:
        return [self.jobs[job_id]] if job_id in self.jobs else []

    def _known(self, job_id: int) -> list[SimJob]:
        found = self._only(job_id)
        if not found:
            raise Refused(f"{_known_as(job_id)}: Invalid job id specified", Refusal.PERSON)
        return found

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

    def _process_ended(self, job: SimJob, run: Run, process: Process) -> None:
        run.silent = self.clock.time
        if not process.unreachable:
            self.later(lambda: self._noticed(job, run, process))()

    def reached_again(self, job_id: int, process: Process) -> None:
        """slurmd is back before its node was given up: what ended meanwhile is noticed now."""
        process.unreachable = False
        job = self.jobs.get(job_id)
        if job is not None and job.process is process and job.run is not None and not process.alive:
            self.later(lambda: self._noticed(job, process.run, process))()

    def _noticed(self, job: SimJob, run: Run, process: Process) -> None:
        """The controller learns that the processes of a run are gone."""
        if job.run is not run or run.released is not None:
            return
        job.steps = tuple(process.steps)
        job.derived_exit = max((s.exit for s in job.steps), key=lambda e: (e.code, e.signal), default=ExitCode(0))
        code = process.code
        job.batch = (_batch_state(code), code)
        if job.het_offset == 0:
            for other in self._whole(job)[1:]:
                if other.process is not None:
                    other.process.exit(code.code, code.signal)
        if job.completing:
            job.exit = code
            self._record(job, run.state)
        else:
            state = JobState.COMPLETED if code.ok else JobState.FAILED
            back = False
            job.exit = code
            if job.preempted_at is not None and self.settings.keeps_preemption:
                state, back, job.exit = JobState.PREEMPTED, self._comes_back(job), ExitCode(0)
            if not code.ok:
                job.reason = "NonZeroExitCode" if code.code or self.settings.keeps_preemption else "JobLaunchFailure"
            self._close(job, state, back=back)
        self._free_soon(job, run)

    def _whole(self, job: SimJob) -> list[SimJob]:
        """The job with all its het components."""
        if job.het_job_id is None:
            return [job]
        return [j for j in self.jobs.values() if j.het_job_id == job.het_job_id]

    def _kill(self, job: SimJob, state: JobState, *, back: bool = False, by: int | None = None) -> None:
        """End a running job from outside: SIGTERM to everything, SIGKILL after KillWait."""
        for one in self._whole(job):
            if one.state is JobState.RUNNING:
                one.cancelled_by = by
                self._kill_one(one, state, back=back)

    def _kill_one(self, job: SimJob, state: JobState, *, back: bool) -> None:
        run, process = job.run, job.process
        assert run is not None
        assert process is not None
        job.batch = (JobState.CANCELLED, None if state is JobState.NODE_FAIL else ExitCode(0, 15))
        job.exit = ExitCode(1 if state is JobState.NODE_FAIL else 0)
        self._close(job, state, back=back)
        if state in _NOTICES:
            when = f"{at_epoch(int(self.clock.time)):%Y-%m-%dT%H:%M:%S}"
            notice = f"*** JOB {job.job_id} ON {job.nodes[0]} CANCELLED AT {when}{_NOTICES[state]} ***"
            process.output(f"slurmstepd-{job.nodes[0]}: error: {notice}")
        if process.unreachable:
            # Nobody can reach processes on a dead node: where they write, they go on writing. The job is COMPLETING
            # until the node is declared down.
            if self.nodes[job.nodes[0]].down:
                self._free_soon(job, run)
        elif process.alive:
            process.signal("TERM", batch=True)
            self.clock.after(self.settings.kill_wait, lambda: None if process.unreachable else process.kill())

    def _close(self, job: SimJob, state: JobState, *, back: bool) -> None:
        """The attempt is over for the controller; its nodes are not free yet."""
        run = job.run
        assert run is not None
        for timer in job.timers:
            timer.cancel()
        job.timers.clear()
        job.end = run.stopped = self.clock.time
        run.state = state
        job.state = JobState.PENDING if back else state
        job.restarts += back
        job.completing = True
        for name in job.nodes:
            self.nodes[name].completing.add(job.job_id)
        self._record(job, state)
        for listener in self.listeners:
            listener(job, state)
        self.kick()

    def _free_soon(self, job: SimJob, run: Run) -> None:
        self.clock.after(self.settings.completing, self.later(lambda: self._free(job, run)))

    def _free(self, job: SimJob, run: Run) -> None:
        """COMPLETING is over: the nodes are free, and a requeued job is back in the queue."""
        if run.released is not None:
            return
        run.released = self.clock.time
        for name in job.nodes:
            self.nodes[name].jobs.pop(job.job_id, None)
            self.nodes[name].completing.discard(job.job_id)
        job.completing = False
        if job.state is JobState.PENDING:
            self._return(job)
            if job.doomed is not None:
                self._cancel_pending(job, job.doomed)
        else:
            self._forget_later(job)
        self.kick()

    def _return(self, job: SimJob) -> None:
        """Back into the queue under the same id: a new attempt, with a new submit time."""
        job.state, job.submitted = JobState.PENDING, self.clock.time
        job.begin = job.submitted + self.settings.requeue_delay
        job.start = job.end = job.preempted_at = job.exit = job.derived_exit = job.cancelled_by = None
        job.failed_node = job.batch = job.process = job.run = job.eligible = None
        job.nodes, job.steps, job.reason = (), (), "BeginTime"
        self._judge(job)
        self._record(job)
        self.clock.at(job.begin, self.kick)

    def _grace_over(self, job: SimJob, run: Run | None) -> None:
        if job.run is run and job.state is JobState.RUNNING:
            job.preempted_at = self.clock.time
            self._kill(job, JobState.PREEMPTED, back=self._comes_back(job))

    def _out_of_time(self, job: SimJob, run: Run) -> None:
        if job.run is run and job.state is JobState.RUNNING:
            job.reason = "TimeLimit"
            self._kill(job, JobState.TIMEOUT)

    def _warn(self, job: SimJob, run: Run) -> None:
        if job.run is run and job.state is JobState.RUNNING and job.process is not None:
            job.process.signal(job.request.signal, batch=job.request.signal_batch)

    def _comes_back(self, job: SimJob) -> bool:
        qos = self.settings.find_qos(job.request.qos)
        return qos is not None and qos.mode is PreemptMode.REQUEUE and job.request.requeue

    def _cancel_pending(self, job: SimJob, uid: int | None) -> None:
        job.state, job.end, job.cancelled_by, job.doomed = JobState.CANCELLED, self.clock.time, uid, None
        job.exit = ExitCode(0)
        self._record(job)
        for listener in self.listeners:
            listener(job, JobState.CANCELLED)
        self._forget_later(job)
        self.kick()

    def _forget_later(self, job: SimJob) -> None:
        end = job.end

        def forget() -> None:
            if self.jobs.get(job.job_id) is job and job.ended and job.end == end:
                del self.jobs[job.job_id]

        wait = self.settings.min_job_age + self.random.uniform(0, self.settings.purge_period)
        self.clock.after(wait, self.later(forget))

    def _new_id(self) -> int:
        while True:
            job_id, self._next_id = self._next_id, self._next_id + 1
            if self._next_id > self.settings.max_job_id:
                self._next_id = self.settings.first_job_id
            if job_id not in self.jobs:
                return job_id

    def _record(self, job: SimJob, state: JobState | None = None) -> None:
        self.database.post(seen_in_accounting(job, self.settings, state), eligible=job.eligible is not None)


_SBATCH = "sbatch: error: Batch job submission failed:"
_LIMIT = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


_NOTICES = {
    JobState.PREEMPTED: " DUE TO PREEMPTION",
    JobState.TIMEOUT: " DUE TO TIME LIMIT",
    JobState.NODE_FAIL: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
    JobState.REQUEUED: " DUE TO JOB REQUEUE",
    JobState.CANCELLED: "",
}


def _known_as(job_id: int) -> str:
    return f"slurm_update error for job {job_id}"


def _batch_state(code: ExitCode) -> JobState:
    if code.signal:
        return JobState.CANCELLED
    return JobState.FAILED if code.code else JobState.COMPLETED


def _job_environment(job: SimJob) -> dict[str, str]:
    own = {"SLURM_JOB_ID": str(job.job_id), "SLURM_JOB_NAME": job.request.name}
    if job.restarts:
        own["SLURM_RESTART_COUNT"] = str(job.restarts)
    if job.task is not None:
        own |= {"SLURM_ARRAY_TASK_ID": str(job.task), "SLURM_ARRAY_JOB_ID": str(job.array_job_id)}
    return {**job.request.environment, **own}
