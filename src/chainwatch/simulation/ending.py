"""How jobs end in the simulated slurmctld: by themselves, from outside, and what Slurm then does with them."""

from __future__ import annotations

from chainwatch.model.clock import at_epoch
from chainwatch.model.job import ExitCode, JobState
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.memory import Memory
from chainwatch.simulation.process import Process
from chainwatch.simulation.runs import Run
from chainwatch.simulation.settings import PreemptMode

_NOTICES = {
    JobState.PREEMPTED: " DUE TO PREEMPTION",
    JobState.TIMEOUT: " DUE TO TIME LIMIT",
    JobState.NODE_FAIL: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
    JobState.REQUEUED: " DUE TO JOB REQUEUE",
    JobState.CANCELLED: "",
}


class Ending(Memory):
    """Ends jobs."""

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


def _batch_state(code: ExitCode) -> JobState:
    if code.signal:
        return JobState.CANCELLED
    return JobState.FAILED if code.code else JobState.COMPLETED
