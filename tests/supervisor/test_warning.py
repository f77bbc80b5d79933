"""Early warnings through the loop: each is told once, taken back when it is over, and ends with the attempt."""

from __future__ import annotations

from dataclasses import replace

from chainwatch.model.job import JobState
from chainwatch.model.room import Room
from chainwatch.model.verdict import Progress
from tests.supervisor.jobs import queued
from tests.supervisor.test_watching import Stage, one, store

__all__ = ["one", "store"]
GB = 10**9


def polls(stage: Stage, count: int, room: Room | None = None, rate: float = 0.02, loss: float = 1.0) -> None:
    """So many polls of a chain that steps, with this much room where it saves."""
    for _ in range(count):
        stage.clock.sleep(60)
        stage.step += 1
        stage.runs.life["a"] = Progress(step=stage.step, life=str(stage.step), rate=rate, room=room, loss=loss)
        stage.supervisor.tick()


def test_a_disk_that_fills_is_told_once_and_taken_back_when_there_is_room(one: Stage) -> None:
    tight, wide = Room(GB, save_bytes=GB), Room(9 * GB, save_bytes=GB)
    polls(one, 5, tight)
    (notice,) = one.told("a:room")
    assert notice.severity == "warning"
    assert "1.0 GB" in str(notice.body)
    one.store.delivered(notice.id, one.clock.now())
    polls(one, 5, tight)
    assert one.told("a:room") == [], "it was told"
    polls(one, 1, wide)
    assert not [n for n in one.store.active_notices("a") if "room" in n.key]
    polls(one, 1, tight)
    assert len(one.told("a:room")) == 1, "a disk that fills again is news"


def test_a_rate_that_has_fallen_is_told_and_the_end_of_the_attempt_takes_it_back(one: Stage) -> None:
    polls(one, 3, rate=0.005)
    assert len(one.told("a:slow")) == 1
    one.cluster.jobs[0] = replace(queued(JobState.COMPLETED, 7, start=one.clock.now()), end=one.clock.now())
    polls(one, 1)
    assert one.told("a:slow") == []
    assert "warned" not in one.record().facts
    assert "speed" in one.record().facts, "what is usual is the chain's own, whatever job runs"


def test_a_loss_that_is_a_number_again_takes_back_what_was_told_of_it(one: Stage) -> None:
    polls(one, 3, loss=float("nan"))
    assert len(one.told("a:nan")) == 1
    polls(one, 1, loss=2.0)
    assert one.told("a:nan") == []
