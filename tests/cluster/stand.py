"""A supervisor in this process, over a real store and a real Slurm, whose passes a test takes one by one."""

from __future__ import annotations

import getpass
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from dev.cluster import PrivateCluster
from dev.slurm.stage import losing_clients

from chainwatch.actions.audit import Audit
from chainwatch.cli.first import DirectReaders
from chainwatch.config.models import Chain, Config
from chainwatch.config.site import pause_reason
from chainwatch.model.chain import Attempt, ChainState
from chainwatch.model.clock import SystemClock
from chainwatch.model.job import Job
from chainwatch.slurm import CliBackend, Deadlines
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store, open_store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.house import House
from chainwatch.supervisor.loop import LEASE_TTL, Supervisor
from chainwatch.supervisor.poll import Poller

SCRIPT = """#!/bin/bash
#SBATCH --output=%x-%j.out --open-mode=append
. ./behaviour
"""
DONE = "echo training finished at step 10"
"""What the job does (file `behaviour`) to be proven done."""
FOREVER = "sleep 600"
NCCL = "echo 'RuntimeError: NCCL error: remote process exited or there was a network error'; sleep 1; exit 1"
"""A failure that another try may mend."""


class Stand:
    """One state directory, one run directory, and chains that run `behaviour` there."""

    def __init__(self, cluster: PrivateCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.state = directory / "state"
        self.sentences: list[str] = []
        self.backend: Backend = self.make_backend()
        self.others: dict[str, Backend] = {}
        """Further clusters of the same daemon, by name."""
        (directory / "train.sh").write_text(SCRIPT)
        self.behave(FOREVER)
        self.chains: dict[str, Chain] = {}
        self.observe_only = False
        self.pause_file = directory / "PAUSE"
        self.store: Store = open_store(self.state)
        self.supervisor: Supervisor | None = None

    def close(self) -> None:
        """Its store, and its jobs are ended."""
        self.store.close()
        for name in self.chains:
            self.cluster.run("scancel", f"--name={name}", check=False)

    # -- making

    def make_backend(self) -> CliBackend:
        """Slurm's programs through a directory in which sbatch may be told to lose its request or its reply."""
        programs = self.directory / "bin"
        losing_clients(programs, self.directory / "loses")
        deadlines = Deadlines(query=15, act=15, submit=4)
        return CliBackend(self.cluster.name, str(self.cluster.conf), str(programs), deadlines=deadlines)

    def chain(self, name: str, **settings: Any) -> None:
        """A chain of the configuration; preemptable, done by its mark."""
        given = {
            "batch": self.directory / "train.sh",
            "directory": self.directory,
            "sbatch": [f"--job-name={name}", "--qos=extra", "--time=10", "--no-requeue"],
            "done": {"mark": "training finished at step 10"},
            "recovery": {"backoff": "1s", "backoff_max": "2s", "quick_failure": "0s"},
            **settings,
        }
        self.chains[name] = Chain.model_validate(given)

    def behave(self, what: str) -> None:
        """What jobs that start from now on do."""
        (self.directory / "behaviour").write_text(what + "\n")

    def lose(self, what: str) -> None:
        """`before`: sbatch hangs before it asks; `after`: it hangs after the controller accepted. Empty: neither."""
        (self.directory / "loses").write_text(what)

    def start(self) -> Supervisor:
        """A daemon's beginning: a lease of its own, nothing in memory."""
        clock = SystemClock()
        config = Config(state=self.state, poll=timedelta(seconds=1), settle=timedelta(seconds=6), chains=self.chains)
        user = getpass.getuser()
        self.store.close()
        self.store = open_store(self.state)
        now = clock.now()
        lease = self.store.acquire_lease(f"test:{os.getpid()}", LEASE_TTL, now)
        backends = {self.cluster.name: self.backend, **self.others}
        house = House(
            store=self.store,
            lease=lease,
            state=self.state,
            config=config,
            backends=backends,
            readers=DirectReaders(),
            clock=clock,
            audit=Audit(self.state),
            user=user,
            say=self._say,
            observe_only=self.observe_only,
            site_pause=lambda: pause_reason(self.pause_file),
            environment=lambda record, settings: tuple(sorted(self.environment().items())),
        )
        pollers = {name: Poller(one, clock, user, config.poll, random.Random(0)) for name, one in backends.items()}
        self.supervisor = Supervisor(house, pollers)
        return self.supervisor

    def environment(self) -> dict[str, str]:
        return {n: os.environ[n] for n in ("PATH", "HOME", "USER") if n in os.environ}

    def _say(self, sentence: str, record: ChainRecord, facts: Mapping[str, object]) -> None:
        del facts
        self.sentences.append(f"{record.name}: {sentence}")

    # -- driving

    def tick(self) -> None:
        """One pass."""
        assert self.supervisor is not None
        self.supervisor.tick()

    def submit(self, name: str) -> int:
        """A person asks for the first job; the next pass submits it."""
        self.start()
        self.tick()
        self.store.update_chain(name, retried_at=SystemClock().now())
        self.tick()
        done = [i for i in self.store.intents(name) if i.job_id is not None]
        assert done, self.sentences
        return int(done[-1].job_id or 0)

    def until(self, true: Callable[[], object], what: str, timeout: float = 60) -> None:
        """Take passes until it is true."""
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                said = "\n".join(self.sentences[-30:])
                raise AssertionError(f"not within {timeout:g} s: {what}\n{said}\n{self.rows()}")
            time.sleep(0.3)
            self.tick()

    def passes(self, number: int = 4) -> None:
        """Some more passes, in which nothing ought to happen."""
        for _ in range(number):
            time.sleep(0.3)
            self.tick()

    # -- looking

    def record(self, name: str) -> ChainRecord:
        found = self.store.chain(name)
        assert found is not None
        return found

    def is_(self, name: str, state: ChainState) -> bool:
        return self.record(name).state is state

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        return self.store.attempts(name)

    def runs(self, name: str, number: int) -> bool:
        """Attempt `number` runs."""
        attempts = self.attempts(name)
        return len(attempts) >= number and attempts[number - 1].job.state == "RUNNING"

    def judged(self, name: str, number: int = 1) -> bool:
        attempts = self.attempts(name)
        return len(attempts) >= number and attempts[number - 1].verdict is not None

    def jobs(self, name: str) -> list[Job]:
        """Every job of that name that the controller or accounting ever had, oldest first, requeues once."""
        found = {j.job_id: j for j in self.plain_backend().queue(None) if j.name == name}
        shown = self.cluster.run("sacct", "-nXP", "-o", "JobIDRaw", f"--name={name}", "-S", "now-1hour").stdout.split()
        for job_id in sorted({int(i) for i in shown} - set(found)):
            found[job_id] = self.plain_backend().accounting([job_id])[-1]
        return [found[i] for i in sorted(found)]

    def plain_backend(self) -> CliBackend:
        """A backend that nothing wraps."""
        return CliBackend(self.cluster.name, str(self.cluster.conf))

    def notices(self) -> list[str]:
        return [n.key for n in self.store.active_notices()]

    def rows(self) -> str:
        return "\n".join(str(asdict(c)["sentence"]) for c in self.store.chains())

    def preempt(self, job_id: int) -> None:
        """A job of a higher QOS takes the node of this one."""
        job = next(j for j in self.plain_backend().queue(None) if j.job_id == job_id)
        self.cluster.sbatch(
            "sleep 1", "--qos=normal", "--exclusive", f"--nodelist={job.nodes[0]}", "--time=1", "--job-name=urgent"
        )
