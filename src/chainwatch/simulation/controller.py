"""The simulated slurmctld: the life of every job from sbatch until it is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from chainwatch.model.job import JobState
from chainwatch.simulation import dependency
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.memory import Listener
from chainwatch.simulation.nodes import SimNode
from chainwatch.simulation.process import Script, batch
from chainwatch.simulation.sbatch import Request
from chainwatch.simulation.starting import Starting
from chainwatch.slurm.backend import Refusal, Refused

_SBATCH = "sbatch: error: Batch job submission failed:"
_LIMIT = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


class Controller(Starting):
    """Takes requests, and hears of its nodes."""

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

    def _check_limits(self, request: Request) -> None:
        for qos, most in self.submit_limits.items():
            mine = [j for j in self.jobs.values() if j.request.user == request.user and not j.ended]
            queued = sum(max(1, len(j.tasks)) for j in mine if qos in {"", j.request.qos})
            if qos in {"", request.qos} and queued + max(1, len(request.tasks)) > most:
                raise Refused(f"{_SBATCH} {_LIMIT}", Refusal.WAIT)

    def _known(self, job_id: int) -> list[SimJob]:
        found = self._only(job_id)
        if not found:
            raise Refused(f"{_known_as(job_id)}: Invalid job id specified", Refusal.PERSON)
        return found

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


def _known_as(job_id: int) -> str:
    return f"slurm_update error for job {job_id}"


__all__ = ["Controller", "Listener"]
