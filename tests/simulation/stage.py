"""The simulated cluster as a stage of the backends' contract."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from chainwatch.simulation import (
    Fault,
    FaultKind,
    PreemptMode,
    Qos,
    Settings,
    SimulatedBackend,
    SimulatedCluster,
    VirtualClock,
    batch,
)
from chainwatch.simulation.process import Process
from chainwatch.simulation.process import Program as SimulatedProgram
from chainwatch.slurm.backend import NoInformation, Submission
from chainwatch.slurm.contract import Broken, Can, Program

T = TypeVar("T")
SIGNALS = {"TERM": 15, "USR1": 10, "INT": 2}
QOS = (
    Qos("normal", 100, frozenset({"extra", "extra-requeue"})),
    Qos("extra", 1, grace=8),
    Qos("extra-requeue", 1, mode=PreemptMode.REQUEUE, grace=8),
)
SHORT = Settings(qos=QOS, min_job_age=15, purge_period=15, kill_wait=5, completing=0.05)


class Scripted:
    """A batch script that does what a `Program` of the contract says."""

    def __init__(self, process: Process, program: Program) -> None:
        self.process, self.program = process, program

    def start(self) -> None:
        for number, code in enumerate(self.program.steps):
            self.process.step(str(number), code)
        self.process.after(self.program.seconds, lambda: self._end(self.program.code))

    def signalled(self, signal: str, batch: bool) -> None:
        if self.program.deaf and signal == "TERM":
            return
        if not (batch or self.program.in_step):
            return  # the steps got it, and this script has none
        answer = dict(self.program.on).get(signal)
        if answer is not None:
            self._end(answer)
        elif self.program.in_step and not batch:
            self._end(128 + SIGNALS[signal], SIGNALS[signal])
        else:
            self.process.exit(0, SIGNALS[signal])

    def killed(self) -> None:
        pass

    def output(self, line: str) -> None:
        pass

    def _end(self, code: int, signal: int = 0) -> None:
        if self.program.in_step:
            self.process.step(str(len(self.program.steps)), 0 if signal else code, signal)
        if self.program.killed_by:
            self.process.exit(0, self.program.killed_by)
        else:
            self.process.exit(code)


class SimulatedStage:
    """See `chainwatch.slurm.contract.Stage`."""

    can = frozenset(Can) - {Can.LOOK_INSIDE, Can.MEASURE}  # its jobs have no processes
    user = "ada"
    directory = "/home/ada"
    environment = (("HOME", "/home/ada"),)

    def __init__(self, settings: Settings = SHORT) -> None:
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(self.clock, settings)
        self.cluster.directories = {"/home/ada", "/home/bob"}
        self.backend = SimulatedBackend(self.cluster)
        self._written = 0

    def now(self) -> datetime:
        return self.clock.now()

    def write(self, program: Program) -> str:
        def script(process: Process) -> SimulatedProgram:
            return Scripted(process, program)

        self._written += 1
        path = f"{self.directory}/job{self._written}.sh"
        self.cluster.add_script(path, script)
        return path

    def wait_until(self, question: Callable[[], T | None], seconds: float, what: str) -> T:
        deadline = self.clock.monotonic() + seconds
        while True:
            with contextlib.suppress(NoInformation):
                answer = question()
                if answer is not None:
                    return answer
            if self.clock.monotonic() > deadline:
                raise Broken(f"not within {seconds:g} s: {what}")
            self.clock.sleep(0.3)

    def preemptable(self, *, requeue: bool) -> tuple[str, ...]:
        return ("--qos=extra-requeue",) if requeue else ("--qos=extra",)

    def preempt(self, job_id: int) -> None:
        node = self.cluster.controller.jobs[job_id].nodes[0]
        self.cluster.add_script("/home/bob/urgent.sh", batch(1))
        options = ("--qos=normal", "--exclusive", f"--nodelist={node}")
        self.cluster.submit(Submission("/home/bob/urgent.sh", options=options, directory="/home/bob"), "bob")

    def fail_node(self, node: str) -> None:
        self.cluster.set_down(node, "contract test")

    def restore_node(self, node: str) -> None:
        self.cluster.restore(node)

    @contextlib.contextmanager
    def limit_submissions(self, number: int) -> Iterator[tuple[str, ...]]:
        self.cluster.controller.submit_limits["extra"] = number
        try:
            yield ("--qos=extra",)
        finally:
            del self.cluster.controller.submit_limits["extra"]

    @contextlib.contextmanager
    def outage(self, of: Can) -> Iterator[None]:
        begin, end = self._outages()[of]
        begin()
        try:
            yield
        finally:
            end()

    def _outages(self) -> dict[Can, tuple[Callable[[], None], Callable[[], None]]]:
        cluster = self.cluster

        def authentication(works: bool) -> Callable[[], None]:
            return lambda: setattr(cluster, "authentication", works)

        def lose(kind: FaultKind) -> Callable[[], None]:
            return lambda: self.backend.faults.add([Fault("submit", 1, kind)])

        return {
            Can.CONTROLLER_DOWN: (cluster.stop_controller, cluster.start_controller),
            Can.CONTROLLER_FROZEN: (cluster.freeze_controller, cluster.start_controller),
            Can.ACCOUNTING_DOWN: (cluster.stop_accounting, cluster.start_accounting),
            Can.AUTHENTICATION_DOWN: (authentication(False), authentication(True)),
            Can.REPLY_LOST_AFTER: (lose(FaultKind.AFTER), lambda: None),
            Can.REPLY_LOST_BEFORE: (lose(FaultKind.BEFORE), lambda: None),
        }
