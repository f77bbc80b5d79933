"""The simulated cluster as a daemon sees it: the `Backend` protocol, with its three answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NoReturn, TypeVar

from chainwatch.model.job import Job, Node
from chainwatch.simulation.cluster import Reach, SimulatedCluster
from chainwatch.simulation.faults import Call, FaultKind, FaultPlan, Interrupt
from chainwatch.slurm.backend import ClusterInfo, NoInformation, Refused, SlurmError, Submission, SubmitUncertain

T = TypeVar("T")

TIMED_OUT = "Socket timed out on send/recv operation"
UNAUTHENTICATED = "Munge encode failed: Failed to access munge.socket.2: Protocol authentication error"
REFUSED_CONNECTION = "Unable to contact slurm controller (connect failure)"


class SimulatedBackend:
    """One user's view of a `SimulatedCluster`.

    Every call takes time (`Settings.call`), in which the cluster goes on: what an answer says may be over when it
    arrives. Where the controller or slurmdbd is away, calls take as long to fail as the real ones do.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        faults: FaultPlan | None = None,
        interrupt: Interrupt | None = None,
        user: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._user = user or cluster.settings.user
        self.name = cluster.settings.name
        self.faults = faults or FaultPlan()
        self.interrupt: Interrupt = interrupt or (lambda point: None)
        self.calls: list[Call] = []
        """The history of all calls, oldest first."""

    def info(self) -> ClusterInfo:
        settings = self._cluster.settings
        answer = ClusterInfo(
            name=settings.name,
            version=settings.release,
            min_job_age=int(settings.min_job_age),
            message_timeout=int(settings.message_timeout),
            accounting=settings.accounting,
        )
        return self._ask("info", (), lambda: answer)

    def queue(self, user: str | None) -> Sequence[Job]:
        return self._ask("queue", (user,), lambda: self._cluster.queue(user))

    def accounting(
        self, job_ids: Collection[int] = (), *, since: datetime | None = None, user: str | None = None
    ) -> Sequence[Job]:
        def rows() -> list[Job]:
            if not self._cluster.settings.accounting:
                raise NoInformation("sacct: error: Slurm accounting storage is disabled")
            if not self._cluster.database.up:
                raise NoInformation("sacct: error: Problem talking to the database: Connection refused")
            return self._cluster.accounting(job_ids, since, user)

        return self._call("accounting", (tuple(job_ids), since, user), rows, controller=False)

    def job(self, job_id: int) -> Job | None:
        return self._ask("job", (job_id,), lambda: self._cluster.job(job_id), self._cluster.settings.job_call_timeout)

    def script(self, job_id: int) -> bytes | None:
        timeout = self._cluster.settings.job_call_timeout
        return self._ask("script", (job_id,), lambda: self._cluster.script(job_id), timeout)

    def nodes(self, names: Collection[str] = ()) -> Sequence[Node]:
        return self._ask("nodes", (tuple(names),), lambda: self._cluster.node_views(names))

    def submit(self, submission: Submission) -> int:
        return self._ask("submit", (submission,), lambda: self._cluster.submit(submission, self._user))

    def cancel(self, job_id: int, *, signal: str | None = None, pending_only: bool = False) -> None:
        uid = self._cluster.settings.uid(self._user)
        cancel = self._cluster.controller.cancel
        effect = lambda: cancel(job_id, uid, signal=signal, pending_only=pending_only)  # noqa: E731
        self._ask("cancel", (job_id, signal, pending_only), effect)

    def hold(self, job_id: int) -> None:
        self._ask("hold", (job_id,), lambda: self._cluster.controller.hold(job_id))

    def release(self, job_id: int) -> None:
        self._ask("release", (job_id,), lambda: self._cluster.controller.release(job_id))

    def requeue(self, job_id: int) -> None:
        self._ask("requeue", (job_id,), lambda: self._cluster.controller.requeue(job_id))

    def _ask(
        self, method: str, arguments: tuple[object, ...], answer: Callable[[], T], timeout: float | None = None
    ) -> T:
        return self._call(method, arguments, answer, controller=True, timeout=timeout)

    def _call(
        self,
        method: str,
        arguments: tuple[object, ...],
        answer: Callable[[], T],
        *,
        controller: bool,
        timeout: float | None = None,
    ) -> T:
        settings, clock = self._cluster.settings, self._cluster.clock
        self.interrupt(f"{method}:before")
        at = clock.now()
        fault = self.faults.next(method)
        clock.advance(settings.call / 2)
        if not self._cluster.authentication:
            clock.advance(2.0)
            self._fail(at, method, arguments, UNAUTHENTICATED, effect=False)
        if controller and self._cluster.reach is Reach.FROZEN:
            if method in _CHANGES:
                self._cluster.post(lambda: _try(answer))
            clock.advance(settings.message_timeout)
            self._fail(at, method, arguments, TIMED_OUT, effect=method in _CHANGES)
        if controller and self._cluster.reach is Reach.DOWN:
            clock.advance(settings.connect_timeout if timeout is None else timeout)
            self._fail(at, method, arguments, REFUSED_CONNECTION, effect=False)
        if fault is not None and fault.kind is FaultKind.BEFORE:
            clock.advance(fault.seconds)
            self._fail(at, method, arguments, TIMED_OUT, effect=False)
        if fault is not None and fault.kind is FaultKind.LATE:
            clock.after(fault.seconds + fault.late, lambda: _try(answer))
            clock.advance(fault.seconds)
            self._fail(at, method, arguments, TIMED_OUT, effect=method in _CHANGES)
        try:
            result = answer()
        except SlurmError as error:
            clock.advance(settings.call / 2)
            self.calls.append(Call(at, method, arguments, type(error).__name__, effect=False))
            self.interrupt(f"{method}:after")
            raise
        job_id = result if method == "submit" else None
        if fault is not None:
            clock.advance(fault.seconds)
            self._fail(at, method, arguments, TIMED_OUT, effect=True, result=job_id)
        clock.advance(settings.call / 2)
        self.calls.append(Call(at, method, arguments, "ok", result=job_id))
        self.interrupt(f"{method}:after")
        return result

    def _fail(
        self,
        at: datetime,
        method: str,
        arguments: tuple[object, ...],
        why: str,
        *,
        effect: bool,
        result: object = None,
    ) -> NoReturn:
        error = NoInformation(f"{method}: error: {why}")
        if method == "submit":
            error = SubmitUncertain(f"sbatch: error: Batch job submission failed: {why}")
        self.calls.append(Call(at, method, arguments, type(error).__name__, effect, result))
        self.interrupt(f"{method}:after")
        raise error


_CHANGES = frozenset({"submit", "cancel", "hold", "release", "requeue"})


def _try(request: Callable[[], object]) -> None:
    """Carry out a request that nobody waits for any more."""
    with suppress(Refused):
        request()
