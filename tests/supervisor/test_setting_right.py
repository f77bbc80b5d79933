"""Damaged checkpoints are set right by a process that may hang; the loop waits for no rename, and submits nothing before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chainwatch.model.chain import ChainState
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.simulation import batch
from chainwatch.supervisor.readers import AtOnce, Silent
from tests.supervisor.play import Files, Play


@dataclass
class Hanging(Files):
    """Storage on which changes hang: what was asked meanwhile is done once it answers."""

    hangs: bool = False
    waiting: dict[str, Callable[[], object]] = field(default_factory=dict)

    def work(self, key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if not self.hangs:
            return AtOnce.work(self, key, function, *arguments)
        if key.startswith("move:"):
            self.waiting.setdefault(key, lambda: function(*arguments))
        return Silent("the storage does not answer")

    def busy(self, key: str) -> bool:
        return key in self.waiting

    def answer(self) -> None:
        """The storage is back: what hung comes to its end."""
        self.hangs = False
        for key in list(self.waiting):
            self.waiting.pop(key)()

    def give_up(self) -> None:
        """The process that hung died before it did anything."""
        self.hangs = False
        self.waiting.clear()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in (10, 20):
        (tmp_path / "run" / f"global_step{step}").mkdir(parents=True)
    (tmp_path / "run" / "latest").write_text("global_step20")
    return tmp_path / "run"


@pytest.fixture
def hanging(play: Play, run: Path) -> Hanging:
    """A chain whose job was preempted while it wrote step 20."""
    good = Checkpoint(str(run / "global_step10"), 10, "deepspeed", Status.INTACT, "")
    bad = Checkpoint(str(run / "global_step20"), 20, "deepspeed", Status.DAMAGED, "cut")
    files = play.files = Hanging(report=RunReport(str(run), None, (), None))
    play.start()
    play.chain("run", batch(100_000), checkpoints={"directory": str(run), "hand_over": "set_aside"})
    play.chain("other")
    play.submit("run", "other")
    files.report = RunReport(str(run), "deepspeed", (good, bad), good)
    play.lab.cluster.preempt(play.live("run")[0].job_id)
    return files


def is_right(run: Path) -> bool:
    return not (run / "global_step20").exists() and (run / "latest").read_text() == "global_step10"


def test_the_next_job_is_submitted_once_the_damaged_one_is_aside(play: Play, run: Path, hanging: Hanging) -> None:
    play.until(lambda: len(play.calls("submit")) == 3, 20)
    assert is_right(run)
    assert [m.state for m in play.store.moves()] == ["made", "made"]


@pytest.mark.parametrize("lives", [True, False], ids=["comes-to-its-end", "was-given-up"])
def test_a_rename_that_hangs_holds_up_only_its_own_chain_and_is_settled_by_looking(
    play: Play, run: Path, hanging: Hanging, lives: bool
) -> None:
    hanging.hangs = True
    play.until(lambda: hanging.waiting or "cannot be set right yet" in play.record("run").sentence, 20)
    play.passes(5)
    assert len(play.calls("submit")) == 2, "the chain that waits submitted nothing"
    assert (play.state("run"), play.state("other")) == (ChainState.WAITING, ChainState.RUNNING)
    hanging.answer() if lives else hanging.give_up()
    play.until(lambda: len(play.calls("submit")) == 3, 20)
    assert is_right(run)
    assert "planned" not in [m.state for m in play.store.moves()]


def test_a_rename_under_way_is_not_called_undone(play: Play, run: Path, hanging: Hanging) -> None:
    hanging.hangs = True
    moving: list[str] = []

    def asks(key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if key.startswith("move:"):
            moving.append(key)
            return Hanging.work(hanging, key, function, *arguments)
        return AtOnce.work(hanging, key, function, *arguments)

    hanging.work = asks  # type: ignore[method-assign]
    play.until(lambda: moving, 20)
    play.passes(5)
    assert [m.state for m in play.store.moves()] == ["planned"]
    assert len(moving) == 1, "it is not made twice"
    hanging.answer()
    del hanging.work
    play.until(lambda: len(play.calls("submit")) == 3, 20)
    assert is_right(run)


def test_storage_that_stays_silent_is_told_to_a_person(play: Play, hanging: Hanging) -> None:
    hanging.hangs = True
    play.passes(45)
    assert any("storage" in n.key for n in play.store.active_notices("run"))
    assert len(play.calls("submit")) == 2
