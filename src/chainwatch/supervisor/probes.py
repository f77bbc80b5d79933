"""Looks at the processes of running jobs, beside the loop: a probe takes half a minute and more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from chainwatch.evidence.probe import read_probe
from chainwatch.job import probe as program
from chainwatch.model.job import AttemptId, Job
from chainwatch.model.probe import ProbeReport
from chainwatch.slurm.backend import Backend, Inside, NoInformation, Refused

_WINDOW, _MOST = 3, 30
"""Seconds between the two looks on a node, and until it gives up."""
_AT_ONCE = 4
_USAGE_APART = 70.0
"""Seconds between two sstats: twice the 30 that slurmstepd leaves between two measurements by default, and more."""


class Probes(Protocol):
    """Looks at jobs, beside the loop."""

    def begin(self, cluster: str, job: Job, stacks: bool) -> None:
        """Begin to look. Returns at once."""
        ...

    def take(self, attempt: AttemptId) -> ProbeReport | None:
        """The report of a look that ended, once; None where there is none (yet)."""
        ...


class ThreadedProbes:
    """`Probes` of real clusters: a thread each, a few at a time. They end with the daemon."""

    def __init__(self, backends: Mapping[str, Backend], *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._backends = backends
        self._sleep = sleep
        self._turn = threading.Semaphore(_AT_ONCE)
        self._reports: dict[AttemptId, ProbeReport] = {}

    def begin(self, cluster: str, job: Job, stacks: bool) -> None:
        arguments = (self._backends.get(cluster), job, stacks)
        threading.Thread(target=self._run, args=arguments, name=f"probe-{job.shown_id}", daemon=True).start()

    def take(self, attempt: AttemptId) -> ProbeReport | None:
        return self._reports.pop(attempt, None)

    def _run(self, backend: Backend | None, job: Job, stacks: bool) -> None:
        with self._turn:
            try:
                report = look_inside(backend, job, stacks, self._sleep)
            except Exception as error:  # noqa: BLE001 - whatever it stumbles over is this look's answer
                report = ProbeReport(refused=f"{type(error).__name__}: {error}")
            self._reports[job.attempt] = report


def look_inside(backend: object, job: Job, stacks: bool, sleep: Callable[[float], None] = time.sleep) -> ProbeReport:
    """One look at a job's processes: by a step of our own, else by what Slurm measures."""
    if not isinstance(backend, Inside):
        return ProbeReport(refused="this cluster's jobs cannot be looked into")
    words = [str(job.job_id), str(_WINDOW), str(_MOST), *(["stacks"] if stacks else [])]
    try:
        return read_probe(backend.probe(job, Path(program.__file__).read_bytes(), words), job.nodes)
    except (Refused, NoInformation) as error:
        refused = str(error)
    try:
        before = {each.step: each for each in backend.usage(job)}
        sleep(_USAGE_APART)
        usage = tuple((before[each.step], each) for each in backend.usage(job) if each.step in before)
    except NoInformation:
        return ProbeReport(refused=refused)
    return ProbeReport(refused=refused, usage=usage, span=_USAGE_APART)
