"""Sealing what chains have saved: in a process of its own beside the loop, or as a Slurm job where configured.

Reading a large checkpoint takes long and storage may hang, so nothing here waits: each call looks at what the one process
has done since, and starts the next one. A seal that is missed costs nothing but later knowledge.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from chainwatch.checkpoints.polite import limit
from chainwatch.checkpoints.seal import SealError, due, make_seal, prune
from chainwatch.config.checkpoints import Checkpoints, Seal
from chainwatch.slurm.backend import NoInformation, SlurmError, Submission
from chainwatch.slurm.environment import EnvironmentUnusable
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import reading
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import Place

EVERY = timedelta(minutes=10)
"""A chain's checkpoints are looked at for new ones at most so often."""
JOB_EVERY = timedelta(hours=2)
"""A sealing job that waits in the queue must not be followed by others."""


@dataclass(frozen=True, slots=True)
class Order:
    """One chain whose newest intact checkpoints are to be sealed."""

    place: Place
    state: str
    settle: timedelta
    now: float
    site_rate: float | None
    only_look: bool = False
    """Say which are due, and read none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was sealed or is due (paths), or why something was not."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Work(Protocol):
    """An order that is being carried out elsewhere."""

    def answer(self) -> Answer | None:
        """None as long as it goes on. At once."""
        ...

    def stop(self) -> None:
        """End it, as far as it can be ended."""
        ...


def carry_out(order: Order) -> Answer:
    """Judge quickly, and seal the newest intact ones that have no seal that fits. Never raises."""
    where = order.place.settings.checkpoints
    assert where is not None, "asked only where a directory is configured"
    limit(order.site_rate)
    try:
        wanted = due(reading.checkpoints(order.place, order.settle, order.now), order.state, where.seal.keep)
        if order.only_look:
            return Answer(tuple(each.path for each in wanted))
        prune(order.state)
    except OSError as e:
        return Answer(failed=(f"{e.filename or 'storage'}: {e.strerror or e}",))
    done, failed = [], []
    for each in wanted:
        try:
            make_seal(each, order.state, where.seal.bytes_per_second)
            done.append(each.path)
        except (SealError, OSError) as e:
            failed.append(str(e))
    return Answer(tuple(done), tuple(failed))


class _Process:
    """`carry_out` in a child that reads with idle priority."""

    def __init__(self, order: Order) -> None:
        context = multiprocessing.get_context("forkserver")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, order), daemon=True, name="chainwatch-sealer"
        )
        self._process.start()
        theirs.close()

    def answer(self) -> Answer | None:
        try:
            if not self._pipe.poll(0):
                return None
            found: Answer = self._pipe.recv()
        except (EOFError, OSError):
            found = Answer(failed=("the sealing process died",))
        self.stop()
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.join(0.5)
        self._pipe.close()


def _serve(pipe: Connection, order: Order) -> None:
    try:
        os.nice(15)
    except OSError:
        pass
    pipe.send(carry_out(order))


class Sealing:
    """The daemon's part: one order at a time, over all chains that ask for seals."""

    def __init__(self, house: House, start: Callable[[Order], Work] = _Process) -> None:
        self._house = house
        self._start = start
        self._looked: dict[str, datetime] = {}
        self._submitted: dict[str, datetime] = {}
        self._work: tuple[ChainRecord, Seal, Work] | None = None

    def look(self, chains: Sequence[ChainRecord], now: datetime) -> None:
        """Take up what is done, and begin what is due. At once."""
        if self._work is not None:
            record, seal, work = self._work
            answer = work.answer()
            if answer is None:
                return
            self._work = None
            self._take(record, seal, answer, now)
        for record in sorted(
            chains, key=lambda each: self._looked.get(each.name, datetime.min.replace(tzinfo=now.tzinfo))
        ):
            where = self._wanted(record)
            if where is None or now - self._looked.get(record.name, now - EVERY) < EVERY:
                continue
            in_job = where.seal.where == "job"
            if in_job and now - self._submitted.get(record.name, now - JOB_EVERY) < JOB_EVERY:
                continue
            self._looked[record.name] = now
            settings = self._house.settings(record)
            place = Place(record.name, settings, Acting.directory(record, settings))
            total = self._house.site.bytes_per_second
            rate = None if total is None else total / 2  # the other half is for the readers of each poll
            order = Order(place, str(self._house.state), where.settle, now.timestamp(), rate, only_look=in_job)
            self._work = (record, where.seal, self._start(order))
            return

    def close(self) -> None:
        """End what still reads."""
        if self._work is not None:
            self._work[2].stop()
            self._work = None

    def _wanted(self, record: ChainRecord) -> Checkpoints | None:
        where = self._house.settings(record).checkpoints
        if where is None or not where.seal.enabled or record.released or self._house.paused_by_site:
            return None
        if where.seal.where == "job" and not self._house.may_act(record):
            return None  # a job is something outside; reading is not
        return where

    def _take(self, record: ChainRecord, seal: Seal, answer: Answer, now: datetime) -> None:
        if seal.where == "job":
            if answer.done:
                self._submit(record, seal, answer.done[0], now)
        elif answer.done:
            self._house.say(f"sealed {', '.join(answer.done)}", record, {"sealed": answer.done})
        for why in answer.failed:
            self._house.say(f"not sealed: {why}", record, {"not_sealed": why})

    def _submit(self, record: ChainRecord, seal: Seal, newest: str, now: datetime) -> None:
        self._submitted[record.name] = now
        settings = self._house.settings(record)
        backend = self._house.backends.get(record.cluster)
        if backend is None or settings.checkpoints is None:
            return
        script = self._house.state / "sealing" / f"{record.name}.sh"
        directory = Acting.directory(record, settings)
        try:
            script.parent.mkdir(mode=0o700, exist_ok=True)
            script.write_text(script_of(settings.checkpoints, directory, self._house.state))
            environment = self._house.environment(record, settings)
            submission = submission_of(record.name, seal, script, environment)
            self._house.audit.note(now, "seal_job", record.name, newest=newest, options=submission.options)
            job = backend.submit(submission)
        except (OSError, EnvironmentUnusable, SlurmError, NoInformation) as e:
            self._house.say(f"no sealing job: {e}", record, {"not_sealed": str(e)})
            return
        self._house.say(f"job {job} seals {newest}", record, {"seal_job": job})


def script_of(where: Checkpoints, directory: str, state: Path) -> str:
    """The batch script of a sealing job: `chainwatch verify --seal`, as the daemon itself would."""
    words = [sys.executable, "-m", "chainwatch.cli", "verify", os.path.join(directory, where.directory), "--seal"]
    words += ["--keep", str(where.seal.keep), "--state", str(state), "--patience", "0"]
    if where.seal.mb_per_second is not None:
        words += ["--rate", f"{where.seal.mb_per_second:g}"]
    if where.custom is not None:
        import json

        words += ["--rule", json.dumps(where.custom)]
    elif where.format != "auto":
        words += ["--format", where.format]
    return f"#!/bin/sh\nexec nice -n 15 {shlex.join(words)}\n"


def submission_of(chain: str, seal: Seal, script: Path, environment: Sequence[tuple[str, str]]) -> Submission:
    """The sbatch call. Singleton under a name of its own; away from the chain's directory, where adoption looks."""
    options = (
        *seal.sbatch,
        f"--job-name=chainwatch-seal-{chain}",
        "--comment=chainwatch seals checkpoints",
        "--dependency=singleton",
        f"--output={script.with_suffix('.out')}",
        "--no-requeue",
    )
    return Submission(str(script), options=options, directory=str(script.parent), environment=tuple(environment))
