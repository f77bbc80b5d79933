"""The part of the backends' contract that only reads, played against a live cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NoReturn, TypeVar

from chainwatch.doctor.finding import Finding, Level
from chainwatch.slurm import Backend, NoInformation
from chainwatch.slurm.contract import CASES, Can, CannotPlay, Outcome, Program, Result, play

T = TypeVar("T")
_LEVELS = {Result.PASSED: Level.OK, Result.SKIPPED: Level.UNKNOWN, Result.FAILED: Level.PROBLEM}


class LiveStage:
    """A cluster that people work on: it can be looked at, and nothing is brought about. See `contract.Stage`."""

    can: frozenset[Can] = frozenset()
    directory = "/"
    environment: tuple[tuple[str, str], ...] = ()

    def __init__(self, backend: Backend, user: str, now: Callable[[], datetime]) -> None:
        self.backend = backend
        self.user = user
        self.now = now

    def wait_until(self, question: Callable[[], T | None], seconds: float, what: str) -> T:
        """One look: nobody makes anything happen that could be waited for."""
        answer = question()
        if answer is None:
            self._refuse()
        return answer

    def write(self, program: Program) -> str:
        self._refuse()

    def preemptable(self, *, requeue: bool) -> tuple[str, ...]:
        self._refuse()

    def preempt(self, job_id: int) -> None:
        self._refuse()

    def fail_node(self, node: str) -> None:
        self._refuse()

    def restore_node(self, node: str) -> None:
        self._refuse()

    def limit_submissions(self, number: int) -> AbstractContextManager[tuple[str, ...]]:
        self._refuse()

    def outage(self, of: Can) -> AbstractContextManager[None]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CannotPlay("nothing is changed on a live cluster")


def reading_part(backend: Backend, user: str, now: Callable[[], datetime]) -> Iterator[Finding]:
    """One finding for each case that only reads. Where nobody answers, that is the only finding."""
    try:
        backend.info()
    except NoInformation as error:
        yield Finding(
            "contract",
            Level.UNKNOWN,
            f"the contract could not be played on {backend.name}: {error}",
            mend="Run it where squeue answers.",
        )
        return
    for outcome in play(LiveStage(backend, user, now), [case for case in CASES if case.read_only]):
        yield _finding(backend.name, outcome)


def _finding(cluster: str, outcome: Outcome) -> Finding:
    kept = {Result.PASSED: "kept", Result.SKIPPED: "not played", Result.FAILED: "BROKEN"}[outcome.result]
    return Finding(
        outcome.case.name,
        _LEVELS[outcome.result],
        f"{cluster}: {kept}: {outcome.case.sentence}" + (f" ({outcome.why})" if outcome.why else ""),
        "chainwatch would misread this cluster." if outcome.result is Result.FAILED else "",
        "Report it, with the release and the output of the command." if outcome.result is Result.FAILED else "",
    )
