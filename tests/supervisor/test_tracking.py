"""The track of a running chain: its saves are seen while the job runs, at the cost of a look when something changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.config.models import Chain
from chainwatch.model.chain import ChainState
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.clock import SystemClock
from chainwatch.model.verdict import Progress
from chainwatch.simulation import batch
from chainwatch.store import Store, open_store
from chainwatch.store.records import Save
from chainwatch.supervisor import reading, tracking
from chainwatch.supervisor.readers import Place, Readers, Silent
from chainwatch.supervisor.workers import ProcessReaders
from tests.alerts.conftest import wait_until
from tests.store.build import MINUTE, NOW, record
from tests.supervisor.play import Play

SETTINGS = Chain.model_validate({"batch": "/r/train.sh", "checkpoints": "ckpt"})
PLACE = Place("llama", SETTINGS, "/r")


def found(step: int, status: Status = Status.INTACT) -> Checkpoint:
    return Checkpoint(f"/r/ckpt/{step}", step, "deepspeed", status, "", modified=NOW.timestamp() + step)


class Shelf:
    """Readers that answer with what is put on the shelf, and count the questions."""

    def __init__(self, *checkpoints: Checkpoint) -> None:
        self.put(*checkpoints)
        self.asked = 0

    took = 0.0

    def put(self, *checkpoints: Checkpoint) -> None:
        self.answer: RunReport | Silent = RunReport("/r/ckpt", "deepspeed", checkpoints, checkpoints[-1])

    def checkpoints(self, place: Place, **_: Any) -> RunReport | Silent:
        self.asked += 1
        return self.answer._replace(took=self.took) if isinstance(self.answer, RunReport) else self.answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "state")
    opened.add_chain(record())
    yield opened
    opened.close()


def look(shelf: Shelf, facts: dict[str, Any], life: str, after: timedelta) -> tuple[RunReport | None, dict[str, Any]]:
    readers: Readers = shelf  # type: ignore[assignment]
    told = Progress(life=f"log|beat|{life}")
    return tracking.running(readers, replace(record(), facts=facts), SETTINGS, PLACE, told, NOW + after)


def test_a_directory_that_did_not_change_is_not_looked_at_again() -> None:
    shelf = Shelf(found(100))
    shelf.took = 20.0
    seen, facts = look(shelf, {}, "1", 0 * MINUTE)
    assert seen is not None
    assert look(shelf, facts, "1", 60 * MINUTE) == (None, {})
    assert look(shelf, facts, "2", 2 * MINUTE) == (None, {}), "it changed, but a busy saver is not followed at its pace"
    assert look(shelf, facts, "2", 6 * MINUTE)[0] is not None
    assert shelf.asked == 2


def test_a_directory_that_is_looked_at_quickly_is_followed_at_the_pace_of_the_polls() -> None:
    """The kind: `saved` stays behind for minutes where a look would have cost nothing."""
    shelf = Shelf(found(100))
    shelf.took = 0.4
    _, facts = look(shelf, {}, "1", 0 * MINUTE)
    assert look(shelf, facts, "2", MINUTE / 4) == (None, {})
    assert look(shelf, facts, "2", MINUTE / 2)[0] is not None
    unmeasured = {tracking.LOOKED: {k: v for k, v in facts[tracking.LOOKED].items() if k != "took"}}
    assert look(shelf, unmeasured, "2", 4 * MINUTE) == (None, {}), "as an older chainwatch wrote it down"


def test_a_look_says_how_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ckpt").mkdir()
    clock = iter((5.0, 7.5))
    monkeypatch.setattr(reading.time, "monotonic", lambda: next(clock))
    place = replace(PLACE, directory=str(tmp_path))
    assert reading.checkpoints(place, timedelta(0), 0.0).took == 2.5


def test_a_save_that_is_being_written_is_looked_at_again_and_is_no_save_yet(store: Store) -> None:
    shelf = Shelf(found(100), found(200, Status.IN_PROGRESS))
    seen, facts = look(shelf, {}, "1", 0 * MINUTE)
    tracking.report(store, "llama", seen)
    assert [save.step for save in store.saves("llama")] == [100]
    shelf.put(found(100), found(200))
    seen, _ = look(shelf, facts, "1", 6 * MINUTE)
    tracking.report(store, "llama", seen)
    assert store.saves("llama")[-1] == Save(
        "/r/ckpt/200", NOW.replace(microsecond=0) + timedelta(seconds=200), 200, Status.INTACT
    )


def test_silent_storage_is_asked_again_at_the_next_poll() -> None:
    shelf = Shelf(found(100))
    shelf.answer = Silent("hangs")
    assert look(shelf, {}, "1", 0 * MINUTE) == (None, {})


def test_a_loss_that_is_no_number_leaves_the_step(store: Store) -> None:
    tracking.progress(store, "llama", Progress(step=5, loss=float("nan")), NOW)
    tracking.progress(store, "llama", Silent("hangs"), NOW + MINUTE)
    tracking.progress(store, "llama", Progress(step=9, loss=2.5), NOW + 2 * MINUTE)
    assert [(point.step, point.loss) for point in store.points("llama")] == [(5, None), (9, 2.5)]


def test_a_look_that_is_late_does_not_take_the_saved_step_back_and_a_damaged_save_does() -> None:
    def saved(known: int | None, *checkpoints: Checkpoint) -> int | None:
        intact = [one for one in checkpoints if one.intact]
        report = RunReport("/r/ckpt", "deepspeed", checkpoints, intact[-1] if intact else None)
        return tracking.newest_saved(replace(record(), saved_step=known), report)

    assert saved(None, found(100)) == 100
    assert saved(100, found(100), found(200)) == 200
    assert saved(200, found(100)) == 200
    assert saved(200, found(100), found(200, Status.DAMAGED)) == 100
    assert saved(200) == 200


def test_looks_at_running_jobs_take_one_reader_and_are_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = ProcessReaders(SystemClock(), patience=30)
    monkeypatch.setattr(reading, "checkpoints", _slow)
    try:
        settle = timedelta(0)
        begun = time.monotonic()
        first = readers.checkpoints(PLACE, settle=settle, fresh=False)
        second = readers.checkpoints(replace(PLACE, chain="other"), settle=settle, fresh=False)
        assert time.monotonic() - begun < 20, "the first reader's start is what this takes"
        assert (first, second) == (Silent("storage does not answer yet"), Silent("another chain is looked at"))
        wait_until(lambda: isinstance(readers.checkpoints(PLACE, settle=settle, fresh=False), RunReport), 30)
    finally:
        readers.close()


def _slow(place: Place, *_: object) -> RunReport:
    time.sleep(1)
    return RunReport("/r/ckpt", None, (), None)


def test_what_was_saved_before_the_first_job_and_between_two_is_known_too(play: Play) -> None:
    """The kind: a fact that only one of several looks writes down."""
    play.files.report = RunReport("/r/ckpt", "deepspeed", (found(100),), found(100))
    play.chain("run", batch(100_000), checkpoints="ckpt", recovery={"grace": "10m"})
    play.submit("run")
    assert play.record("run").saved_step == 100
    [first] = play.store.attempts("run")
    assert first.saved_before == 100, "the first job did not save it"
    play.lab.cluster.preempt(play.live("run")[0].job_id)
    play.until(lambda: play.state("run") is ChainState.WAITING)
    late = RunReport("/r/ckpt", "deepspeed", (found(100), found(200)), found(200))
    play.files.report = late  # it was still being written when the end was judged
    play.passes(12)
    assert play.record("run").saved_step == 200
