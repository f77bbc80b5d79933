"""A simulated cluster with short words for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chainwatch.model.job import Job, Source
from chainwatch.simulation import (
    Disk,
    FaultPlan,
    Recipe,
    Settings,
    SimulatedBackend,
    SimulatedCluster,
    Training,
    VirtualClock,
    batch,
)
from chainwatch.simulation.process import Script
from chainwatch.slurm.backend import Submission

TRAIN = "/home/ada/train.sh"


@dataclass
class Lab:
    """Clock, cluster and backend; nothing is random but the jitter of the seed."""

    settings: Settings = field(default_factory=Settings)
    faults: FaultPlan = field(default_factory=FaultPlan)
    seed: int = 0

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(self.clock, self.settings, self.seed)
        self.backend = SimulatedBackend(self.cluster, self.faults)

    def script(self, program: Script, *directives: str, path: str = "/home/ada/job.sh") -> str:
        lines = "".join(f"#SBATCH {d}\n" for d in directives)
        self.cluster.add_script(path, program, f"#!/bin/bash\n{lines}srun work\n".encode())
        return path

    def submit(self, *options: str, script: str = "/home/ada/job.sh", args: tuple[str, ...] = ()) -> int:
        return self.backend.submit(Submission(script, args, options, "/home/ada"))

    def run(self, program: Script, *options: str) -> int:
        """Submit a job of that program."""
        self.script(program)
        return self.submit(*options)

    def training(self, recipe: Recipe | None = None, *directives: str, **more: object) -> Training:
        recipe = replace(recipe or Recipe(), **more)  # type: ignore[arg-type]
        training = Training(recipe, Disk(self.clock, "/scratch/run"), self.faulty)
        self.script(training, *directives, path=TRAIN)
        return training

    def faulty(self, name: str) -> bool:
        return self.cluster.controller.nodes[name].faulty

    def queued(self, job_id: int) -> Job | None:
        return next((j for j in self.backend.queue(None) if j.job_id == job_id), None)

    def row(self, job_id: int) -> Job:
        """The newest row of accounting."""
        return self.backend.accounting([job_id])[-1]

    def state(self, job_id: int) -> str:
        job = self.queued(job_id)
        return job.state.value if job else "absent"

    def reason(self, job_id: int) -> str:
        job = self.backend.job(job_id)
        return job.reason if job else "absent"


__all__ = ["TRAIN", "Lab", "Source", "batch"]
