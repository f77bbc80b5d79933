"""Looking into a running job: by a step of our own, else by sstat, and never on the loop's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chainwatch.model.job import Job
from chainwatch.model.probe import StepUsage
from chainwatch.slurm.backend import NoInformation, Refusal, Refused
from chainwatch.supervisor.probes import ThreadedProbes, look_inside
from tests.supervisor.jobs import queued

JOB = queued(nodes=("n1", "n2"))


class Slurm:
    """A backend that can be looked into, or says why not."""

    def __init__(self, answer: str | Exception, usage: Sequence[Sequence[StepUsage] | Exception] = ()) -> None:
        self.answer, self.usages = answer, list(usage)
        self.words: list[str] = []
        self.held = threading.Event()
        self.held.set()

    def probe(self, job: Job, program: bytes, words: Sequence[str]) -> str:
        assert b"def main" in program
        self.words = list(words)
        self.held.wait(10)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def usage(self, job: Job) -> Sequence[StepUsage]:
        answer = self.usages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_programs_words_are_job_window_and_bound_and_stacks_only_where_asked() -> None:
    slurm = Slurm("chainwatch-probe n1 ran\n")
    report = look_inside(slurm, JOB, False)
    assert ([look.node for look in report.nodes], report.silent, slurm.words[0]) == (["n1"], ("n2",), "7")
    assert "stacks" not in slurm.words
    look_inside(slurm, JOB, True)
    assert slurm.words[-1] == "stacks"


def test_where_a_step_is_refused_sstat_is_asked_twice_with_time_between() -> None:
    slept: list[float] = []
    first = StepUsage("0", 8, 100, 90, "n2", 5)
    slurm = Slurm(Refused("not permitted", Refusal.PERSON), [[first], [replace(first, average=170.0)]])
    report = look_inside(slurm, JOB, False, slept.append)
    assert (report.refused, len(report.usage), slept) == ("not permitted", 1, [report.span])
    nothing = Slurm(NoInformation("srun gave no answer"), [NoInformation("no steps")])
    assert look_inside(nothing, JOB, False, slept.append).usage == ()


def test_a_cluster_that_cannot_be_looked_into_says_so() -> None:
    assert look_inside(object(), JOB, False).refused
    assert look_inside(None, JOB, False).refused


def test_the_loop_does_not_wait_and_fetches_the_report_once() -> None:
    slurm: Any = Slurm("chainwatch-probe n1 ran\n")
    slurm.held.clear()
    probes = ThreadedProbes({"alpha": slurm})
    probes.begin("alpha", JOB, False)
    assert probes.take(JOB.attempt) is None
    slurm.held.set()
    end = time.monotonic() + 10
    report = None
    while report is None and time.monotonic() < end:
        report = probes.take(JOB.attempt)
        time.sleep(0.01)
    assert report is not None
    assert probes.take(JOB.attempt) is None


def test_a_look_that_fails_in_any_way_is_a_report_that_says_so() -> None:
    probes = ThreadedProbes({"alpha": Slurm(RuntimeError("boom"))})  # type: ignore[dict-item]
    probes.begin("alpha", JOB, False)
    end = time.monotonic() + 10
    while (report := probes.take(JOB.attempt)) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "boom" in report.refused
