"""The readers of user storage over simulated disks: same answers, no processes, virtual time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from chainwatch.diagnosis.completion import judge_completion
from chainwatch.evidence import LogFile, ProgressReader, measure_completion, read_logs
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import LogEvidence, Progress
from chainwatch.simulation import StorageHangs, Training
from chainwatch.slurm.paths import log_paths
from chainwatch.supervisor.readers import AtOnce, LeftBehind, Place, Silent
from tests.simulation.world.mirror import MirroredDisk


class SimulatedReaders(AtOnce):
    """See `chainwatch.supervisor.readers.Readers`."""

    def __init__(self, trainings: Mapping[str, Training]) -> None:
        self._trainings = trainings

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        disk = self._disk(place)
        try:
            return disk.report(settle.total_seconds())
        except StorageHangs as silent:
            return Silent(str(silent))

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        since = job.start.timestamp() - 2 if job.start else 0.0
        path = log_paths(job).stdout
        try:
            lines = self._disk(place).lines(path, since)
        except StorageHangs as silent:
            return Silent(str(silent))
        if job.start is None or not lines:
            return LeftBehind(logs=LogEvidence(readable=False, problem=f"{path}: no such file"))
        settings = place.settings
        with tempfile.TemporaryDirectory(dir=self._disk(place).root) as scratch:
            file = Path(scratch) / "log"
            file.write_text("".join(f"{line.text}\n" for line in lines))
            log = LogFile(str(file))
            reader = ProgressReader(settings.logs.profile, settings.logs.progress)
            logs = read_logs([log], nodes=job.nodes, progress=reader)
            facts = measure_completion(settings.done, directory=place.directory, logs=[log], step=logs.step)
        return LeftBehind(
            logs=logs,
            progress=Progress(step=logs.step, target=settings.done.step, source="log"),
            completion=judge_completion(facts, settings.done.rule),
        )

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        if self._disk(place).hangs:
            return Silent("the storage does not answer")
        return self._trainings[place.chain].progress()

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        return "the storage does not answer" if self._disk(place).hangs else ""

    def close(self) -> None:
        pass

    def _disk(self, place: Place) -> MirroredDisk:
        disk = self._trainings[place.chain].disk
        assert isinstance(disk, MirroredDisk)
        disk.look()
        return disk
