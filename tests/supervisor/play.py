"""A daemon's loop over a small simulated cluster, in virtual time, with a real store: passes are taken one by one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from chainwatch.actions.audit import Audit
from chainwatch.config.models import Chain, Config
from chainwatch.model.chain import ChainState
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import Completion, LogEvidence, Progress, Proof
from chainwatch.simulation import Settings
from chainwatch.simulation.process import Script
from chainwatch.store import Store, open_store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.house import House
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller
from chainwatch.supervisor.readers import AtOnce, LeftBehind, Place, Silent
from tests.simulation.lab import Lab, batch

POLL = timedelta(seconds=60)


@dataclass
class Files(AtOnce):
    """The readers of user storage: what a test says."""

    report: RunReport | Silent | None = None
    proof: Proof = Proof.NO
    logs: LogEvidence = LogEvidence()
    asked: int = 0
    broken: str | Silent = ""
    """What a probe of storage finds wrong."""
    probed: list[tuple[str, bool]] = field(default_factory=list)

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        self.asked += 1
        return self.report if place.settings.checkpoints is not None else None

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        return LeftBehind(logs=self.logs, completion=Completion(self.proof))

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        return Progress()

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        self.probed.append((place.chain, write))
        return self.broken

    def close(self) -> None:
        pass


@dataclass
class Play:
    """One user's daemon and its chains."""

    root: Path
    template: Path
    """An empty database to begin with."""
    settings: Settings = field(default_factory=Settings)
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        self.lab = Lab(self.settings)
        self.clock, self.backend = self.lab.clock, self.lab.backend
        (self.root / "state").mkdir(mode=0o700)
        shutil.copy(self.template, self.root / "state" / "chainwatch.db")
        self.store: Store = open_store(self.root / "state")
        self.chains: dict[str, Chain] = {}
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        """A daemon's beginning: nothing in memory."""
        lease = self.store.acquire_lease("here:1", LEASE_TTL, self.clock.now(), force_dead_check=lambda holder: True)
        self.house = House(
            store=self.store,
            lease=lease,
            state=self.root / "state",
            config=Config(state=self.root / "state", poll=POLL, chains=self.chains),
            backends={self.backend.name: self.backend},
            readers=self.files,
            clock=self.clock,
            audit=Audit(self.root / "state"),
            user="ada",
            uid=self.settings.uid("ada"),
            say=self._say,
            read_script=lambda path: self.lab.cluster.content(path),
            environment=lambda record, settings: (("HOME", "/home/ada"),),
        )
        self.supervisor = Supervisor(
            self.house, {self.backend.name: Poller(self.backend, self.clock, "ada", POLL, random.Random(0))}
        )

    def _say(self, sentence: str, record: ChainRecord, facts: Mapping[str, object]) -> None:
        self.said.append(f"{record.name}: {sentence}")

    def chain(self, name: str, program: Script | None = None, **settings: Any) -> Chain:
        """A chain of the configuration, whose jobs run `program` (for ever, unless given)."""
        script = self.lab.script(program or batch(None), path=f"/home/ada/{name}.sh")
        given = {"batch": script, "directory": "/home/ada", "sbatch": [f"--job-name={name}"], **settings}
        self.chains[name] = Chain.model_validate(given)
        self.reload()
        return self.chains[name]

    def reload(self) -> None:
        """The configuration is read again."""
        self.house.config = self.house.config.model_copy(update={"chains": dict(self.chains)})

    def submit(self, *names: str) -> None:
        """People ask for the first jobs, which then run."""
        self.passes(1)
        for name in names:
            self.store.update_chain(name, retried_at=self.clock.now())
        self.passes(3)

    def passes(self, number: int = 1) -> None:
        """So many passes, a poll apart."""
        for _ in range(number):
            self.clock.sleep(POLL.total_seconds())
            self.supervisor.tick()

    def until(self, true: Callable[[], object], passes: int = 200) -> None:
        """Take passes until it is true."""
        for _ in range(passes):
            if true():
                return
            self.passes()
        raise AssertionError(f"not within {passes} passes\n" + "\n".join(self.said[-30:]))

    def record(self, name: str) -> ChainRecord:
        found = self.store.chain(name)
        assert found is not None
        return found

    def state(self, name: str) -> ChainState:
        return self.record(name).state

    def calls(self, method: str) -> list[tuple[object, ...]]:
        """What was asked of the cluster by that method."""
        return [call.arguments for call in self.backend.calls if call.method == method]

    def live(self, name: str) -> list[Job]:
        """The chain's jobs that wait or run, as Slurm lists them."""
        return [j for j in self.backend.queue("ada") if j.name == name and not j.state.terminal]
