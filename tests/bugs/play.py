"""A chain under a whole daemon whose Slurm answers in text, and short words for what happens to it and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainwatch.model.chain import Attempt, ChainState
from chainwatch.model.verdict import Cause
from chainwatch.simulation import Settings
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.training import Start
from chainwatch.slurm.cli import CliBackend
from chainwatch.store.records import ChainRecord
from tests.bugs.clients import Clients
from tests.simulation.world.plan import ChainPlan, Plan
from tests.simulation.world.world import Tale, World

DAY = 24 * 3600.0
LONG = 2 * 3600.0
"""Long enough for whatever wrong would be done next."""


class Play(World):
    """One situation. Chains are `run0`, `run1`, …; `run0` is meant where none is named."""

    def __init__(self, template: Path, *chains: ChainPlan, first: bool = True, **settings: Any) -> None:
        """`settings`: of the cluster. `first`: the daemon is asked for the chains' first jobs."""
        self._more = settings
        super().__init__(Plan(chains=chains or (ChainPlan(),)), template)
        self.clients = Clients(self.backend)
        self.asked = CliBackend(self.cluster.settings.name, bin_dir="/nowhere", run=self.clients, environment={})
        self._begin()
        if not first:
            for name in self.tales:
                self.store.update_chain(name, retried_at=None)

    def settings(self, planned: Settings) -> Settings:
        return replace(planned, **self._more)

    def directory(self, name: str) -> str:
        made = self.root / "home" / name
        made.mkdir(parents=True)
        return str(made)

    # -- time

    def go(self, seconds: float) -> None:
        """Let the daemon work for so long."""
        end = self.clock.time + seconds
        while self.clock.time < end:
            self._step(_nothing)

    def until(self, true: Callable[[], object], what: str, within: float = DAY) -> None:
        """Let the daemon work until it is true."""
        end = self.clock.time + within
        while not true():
            assert self.clock.time < end, f"not within {within:g} s: {what}\n{self.trace()}"
            self._step(_nothing)

    def running(self, number: int = 1, name: str = "run0") -> SimJob:
        """The chain's attempt of that number runs, in truth and in chainwatch's book, and has trained for a while."""
        self.until(
            lambda: len(self.attempts(name)) >= number and self.record(name).state is ChainState.RUNNING,
            f"attempt {number} of {name} runs",
        )
        self.go(1800)
        return self.live(name)[0]

    def retry(self, name: str = "run0") -> None:
        """A person asks for the next job."""
        self.store.update_chain(name, retried_at=self.clock.now())

    def finishes(self, name: str = "run0") -> None:
        """The chain comes to its end, and nothing is submitted afterwards."""
        self.until(lambda: self.is_(ChainState.DONE, name), f"{name} is done", 4 * DAY)
        jobs = self.submitted(name)
        self.go(LONG)
        assert self.submitted(name) == jobs, self.trace()
        assert self.tales[name].disk.finished, "it is said to be done, and is not"

    # -- what is so

    def tale(self, name: str = "run0") -> Tale:
        return self.tales[name]

    def record(self, name: str = "run0") -> ChainRecord:
        found = self.store.chain(name)
        assert found is not None
        return found

    def is_(self, state: ChainState, name: str = "run0") -> bool:
        return self.record(name).state is state

    def attempts(self, name: str = "run0") -> tuple[Attempt, ...]:
        return self.store.attempts(name)

    def causes(self, name: str = "run0") -> list[Cause]:
        """Why each attempt ended, as chainwatch judged."""
        return [a.verdict.cause for a in self.attempts(name) if a.verdict is not None]

    def submitted(self, name: str = "run0") -> list[int]:
        """Raw ids of all jobs that the controller ever accepted for the chain."""
        return [i for _, i, request in self.cluster.controller.accepted if request.script == self.tales[name].script]

    def cancelled(self) -> list[tuple[str, ...]]:
        """Every scancel of the daemon."""
        return self.clients.lines("scancel")

    def resumed(self, name: str = "run0") -> list[Start]:
        """What every run of the training truly began from."""
        return [t.start_of for t in self.tales[name].training.trainers if t.start_of is not None]

    def never_bad(self, name: str = "run0") -> bool:
        """No run began from less than the newest intact checkpoint, and none from scratch while one existed."""
        return all(s.path == s.best for s in self.resumed(name))

    def said(self, words: str, name: str = "run0") -> bool:
        """Some sentence about the chain, or some alert that reached people, holds these words."""
        return any(words in s for _, chain, s in self.sentences if chain == name) or any(
            words in t.title for t in self.told if t.chain == name
        )

    def alerts(self, part: str = "") -> list[str]:
        """Keys of the alerts that reached people."""
        return [t.key for t in self.told if part in t.key]


def _nothing(world: World) -> None:
    """Nothing is checked between the steps."""


__all__ = ["DAY", "LONG", "Cause", "ChainPlan", "ChainState", "Play"]
