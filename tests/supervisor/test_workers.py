"""Work on users' storage in processes of its own: it may hang, is fetched later, and nobody begins it twice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chainwatch.config.models import Chain
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.clock import SystemClock
from chainwatch.supervisor import reading
from chainwatch.supervisor.daemon import ONCE_PATIENCE
from chainwatch.supervisor.house import on_disk
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.workers import KEPT, ProcessReaders
from tests.alerts.conftest import wait_until


@pytest.fixture
def readers() -> Iterator[ProcessReaders]:
    made = ProcessReaders(SystemClock(), patience=0.2)
    yield made
    made.close()


def through_a_pipe(path: str) -> bytes:
    """A read that hangs until somebody writes, as one of a dead file server does."""
    return Path(path).read_bytes()


def test_a_read_that_hangs_is_silence_and_is_fetched_once_it_answers(readers: ProcessReaders, tmp_path: Path) -> None:
    pipe = tmp_path / "script"
    os.mkfifo(pipe)
    arguments = ("key", reading.script, through_a_pipe, str(pipe))
    begun = time.monotonic()
    assert isinstance(readers.work(*arguments), Silent)
    assert isinstance(readers.work(*arguments), Silent)
    assert time.monotonic() - begun < 20
    assert readers.busy("key")
    assert not readers.busy("another")
    pipe.write_bytes(b"#!/bin/sh")  # opens only since exactly one process reads
    answers: list[object] = []

    def answered() -> bool:
        answers.append(readers.work(*arguments))
        return not isinstance(answers[-1], Silent)

    wait_until(answered, 20)
    assert answers[-1] == b"#!/bin/sh"
    assert not readers.busy("key")


def test_a_script_that_is_missing_is_an_answer_and_no_silence(readers: ProcessReaders, tmp_path: Path) -> None:
    def asked() -> bool:
        return readers.work("key", reading.script, on_disk, str(tmp_path / "none")) == "No such file or directory"

    wait_until(asked, 20)


def test_work_whose_process_was_given_up_is_busy_until_that_process_is_dead(
    readers: ProcessReaders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "script")
    readers.work("key", reading.script, on_disk, str(tmp_path / "script"))
    [worker] = readers._workers
    monkeypatch.setattr(worker.process, "kill", lambda: None)  # as with a process in uninterruptible sleep
    worker.deadline = 0.0
    assert readers.busy("key")
    assert worker not in readers._workers
    monkeypatch.undo()
    worker.process.kill()
    worker.process.join(10)
    assert not readers.busy("key")


def test_a_single_pass_waits_for_a_slow_read(tmp_path: Path) -> None:
    """The kind: work that is fetched in a later pass, where there is none."""
    pipe = tmp_path / "script"
    os.mkfifo(pipe)
    patient = ProcessReaders(SystemClock(), patience=ONCE_PATIENCE)
    threading.Timer(3, lambda: pipe.write_bytes(b"late")).start()
    try:
        assert patient.work("key", reading.script, through_a_pipe, str(pipe)) == b"late"
    finally:
        patient.close()


def test_a_report_that_was_begun_before_the_chain_changed_is_not_an_answer_about_it_now(tmp_path: Path) -> None:
    """The kind: a slow read that nobody fetched, found again when the next job has ended."""
    settings = Chain.model_validate({"batch": "/t.sh", "checkpoints": str(tmp_path)})
    late = ProcessReaders(SystemClock(), patience=0.0)
    try:
        place = Place("run", settings, str(tmp_path), SystemClock().now())
        assert isinstance(late.checkpoints(place, settle=timedelta(0)), Silent)
        wait_until(lambda: late._collect(0.1) is None and bool(late._done), 20)
        (tmp_path / "checkpoint-10").mkdir()
        changed = replace(place, since=SystemClock().now())
        answers: list[object] = []

        def answered() -> bool:
            answers.append(late.checkpoints(changed, settle=timedelta(0)))
            return isinstance(answers[-1], RunReport)

        wait_until(answered, 20)
        assert isinstance(answers[0], Silent)
        report = answers[-1]
        assert isinstance(report, RunReport)
        assert [c.path for c in report.checkpoints] == [str(tmp_path / "checkpoint-10")]
    finally:
        late.close()


def test_an_answer_that_nobody_fetched_is_forgotten(tmp_path: Path) -> None:
    class Later(SystemClock):
        passed = timedelta(0)

        def now(self) -> datetime:
            return super().now() + self.passed

    (tmp_path / "script").write_text("old")
    clock = Later()
    readers = ProcessReaders(clock, patience=0.0)
    arguments = ("key", reading.script, on_disk, str(tmp_path / "script"))
    try:
        readers.work(*arguments)
        wait_until(lambda: readers._collect(0.1) is None and bool(readers._done), 20)
        (tmp_path / "script").write_text("new")
        clock.passed = 2 * KEPT
        answers: list[object] = []

        def answered() -> bool:
            answers.append(readers.work(*arguments))
            return not isinstance(answers[-1], Silent)

        wait_until(answered, 20)
        assert answers[-1] == b"new"
    finally:
        readers.close()
