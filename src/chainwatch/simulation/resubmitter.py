"""Somebody else who resubmits: the site's auto-requeue script, which knows nothing of chainwatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chainwatch.model.job import JobState
from chainwatch.simulation.cluster import Reach, SimulatedCluster
from chainwatch.simulation.disk import Disk
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.training import RESUME_VARIABLE
from chainwatch.slurm.backend import Refused, Submission


@dataclass(slots=True, eq=False)
class SiteResubmitter:
    """Resubmits a script's jobs some time after they ended as PREEMPTED or CANCELLED, from the highest step.

    It reacts to Slurm's word alone (a job that exits within its grace is FAILED on 22.05, so it does nothing), and
    does not look whether somebody else resubmitted already. `delay` gives the seconds it takes, each time anew.
    """

    cluster: SimulatedCluster
    script: str
    disk: Disk
    delay: Callable[[], float] = lambda: 90.0
    states: frozenset[JobState] = frozenset({JobState.PREEMPTED, JobState.CANCELLED})
    options: tuple[str, ...] = ()
    retry: float = 60.0
    """Seconds after which it tries again when the controller is away or refuses."""
    copies_comment: bool = False
    """It copies the old job's comment, with whatever tag stands in it."""
    active: bool = True
    submitting: bool = False
    """It is calling sbatch at this very moment."""
    submitted: list[int] = field(default_factory=list)
    """Ids of its jobs."""

    def __post_init__(self) -> None:
        self.cluster.on_end(self._ended)

    def _ended(self, job: SimJob) -> None:
        if not self.active or job.request.script != self.script or job.state not in self.states:
            return
        request = job.request
        options = [f"--job-name={request.name}", f"--qos={request.qos}", f"--nodes={request.nodes}", *self.options]
        if self.copies_comment:
            options.append(f"--comment={request.comment}")
        submission = Submission(
            script=self.script,
            args=request.args,
            options=tuple(options),
            directory=request.directory,
            environment=tuple(request.environment.items()),
        )
        self.cluster.clock.after(self.delay(), lambda: self._resubmit(submission))

    def _resubmit(self, submission: Submission) -> None:
        if not self.active or self.disk.finished:
            return
        highest = self.disk.highest()
        environment = {**dict(submission.environment), RESUME_VARIABLE: highest.path if highest else ""}
        submission = Submission(
            script=submission.script,
            args=submission.args,
            options=submission.options,
            directory=submission.directory,
            environment=tuple(environment.items()),
        )
        self.submitting = True
        try:
            if self.cluster.reach is not Reach.UP:
                raise ConnectionError
            self.submitted.append(self.cluster.submit(submission))
        except (Refused, ConnectionError):
            self.cluster.clock.after(self.retry, lambda: self._resubmit(submission))
        finally:
            self.submitting = False
