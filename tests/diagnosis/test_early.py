"""Early warnings: told when something is ahead, never for what a healthy run does, and taken back with some distance."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chainwatch.config.models import Warnings
from chainwatch.diagnosis.early import Ahead, Early, Speed, warnings
from chainwatch.model.room import Room

START = datetime(2026, 3, 2, 6, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
POLICY = Warnings()
GB = 10**9


def running(hours: float, *, every: timedelta = 2 * HOUR, **known: object) -> Ahead:
    """A job that has run for so long and saved every so often, as its predecessor did for a day."""
    now = START + hours * HOUR
    before = [START - 24 * HOUR + i * every for i in range(int(23 * HOUR / every))]
    own = [START + i * every for i in range(1, 100) if START + i * every <= now]
    ahead = Ahead(now=now, started=START, limit=24 * HOUR, saves=(*before, *own))
    return replace(ahead, **known)  # type: ignore[arg-type]


def found(ahead: Ahead, standing: tuple[Early, ...] = (), policy: Warnings = POLICY) -> list[Early]:
    return [one.early for one in warnings(ahead, policy, standing)]


def test_a_healthy_run_is_never_warned_of() -> None:
    room = Room(500 * GB, 10**6, save_bytes=9 * GB, save_files=100)
    for tenth in range(1, 240):
        assert found(running(tenth / 10, room=room)) == [], tenth


def test_a_time_limit_ahead_of_the_next_checkpoint_is_told_as_soon_as_it_is_known() -> None:
    late = running(20.1, every=5 * HOUR)  # saved at 20 h; the next would come at 25 h
    (told,) = warnings(late, POLICY)
    assert told.early is Early.LIMIT
    assert "in 3.9 h" in told.why
    assert "4.0 h of work will be lost" in told.why


def test_a_time_limit_is_not_told_where_the_program_saves_when_it_comes() -> None:
    assert found(running(20.1, every=5 * HOUR, saves_at_limit=True)) == []


def test_a_time_limit_that_costs_little_is_not_told() -> None:
    assert found(running(23.5, every=40 * MINUTE)) == []


def test_time_in_which_the_job_was_suspended_moves_its_limit() -> None:
    assert found(running(20.1, every=5 * HOUR, suspended=HOUR / 2)) == [Early.LIMIT]
    assert found(running(20.1, every=5 * HOUR, suspended=2 * HOUR)) == []


def test_room_for_fewer_than_two_checkpoints_is_told_of_bytes_and_of_inodes() -> None:
    assert found(running(1, room=Room(17 * GB, 10**6, save_bytes=9 * GB))) == [Early.ROOM]
    assert found(running(1, room=Room(19 * GB, 10**6, save_bytes=9 * GB))) == []
    assert found(running(1, room=Room(900 * GB, 150, save_bytes=9 * GB, save_files=100))) == [Early.ROOM]
    quota = Room(5 * GB, None, "the quota", save_bytes=9 * GB)
    assert "the quota leaves 5.0 GB" in warnings(running(1, room=quota), POLICY)[0].why


def test_room_is_told_back_only_with_some_distance() -> None:
    almost = running(1, room=Room(19 * GB, 10**6, save_bytes=9 * GB))
    assert found(almost, standing=(Early.ROOM,)) == [Early.ROOM]
    assert found(replace(almost, room=Room(30 * GB, 10**6, save_bytes=9 * GB)), standing=(Early.ROOM,)) == []


def test_before_the_first_checkpoint_nothing_is_known_of_its_size() -> None:
    assert found(running(1, room=Room(1, 1))) == []


def paced(*rates: float | None, training: bool = True) -> Speed:
    speed = Speed()
    for rate in rates:
        speed = speed.after(rate, training, POLICY.slower_by)
    return speed


def test_a_rate_that_has_halved_is_told_after_three_polls_and_a_short_dip_is_not() -> None:
    usual = [2.0, 2.1, 1.9] * 8
    dip, slow = paced(*usual, 0.9, 0.9, 2.0), paced(*usual, 0.9, 0.9, 0.9)
    assert found(running(1, rate=2.0, speed=dip)) == []
    (told,) = warnings(running(1, rate=0.9, speed=slow), POLICY)
    assert told.early is Early.SLOW
    assert "55% less than its usual 2 steps/s" in told.why


def test_a_run_that_stays_slow_does_not_become_the_usual_one_and_one_that_recovers_is_told_back() -> None:
    slow = paced(*[2.0] * 20, *[0.8] * 500)
    assert found(running(9, rate=0.8, speed=slow), standing=(Early.SLOW,)) == [Early.SLOW]
    for _ in range(2):
        slow = slow.after(1.9, True, POLICY.slower_by)
    assert found(running(9, rate=1.9, speed=slow), standing=(Early.SLOW,)) == []


def test_evaluation_and_the_first_polls_teach_nothing() -> None:
    assert paced(*[2.0] * 20).after(0.1, False, POLICY.slower_by).low == 0
    assert paced(2.0, 0.2, 0.2, 0.2, 0.2).low == 0


def test_a_stored_speed_comes_back_and_rubbish_begins_anew() -> None:
    speed = paced(*[2.0] * 20, 0.5)
    assert Speed.of(speed.as_dict()) == speed
    assert Speed.of({"usual": "fast"}) == Speed()


def test_checkpoints_that_stopped_coming_are_told_against_the_usual_gap() -> None:
    hourly = running(12, every=HOUR)
    stopped = replace(hourly, saves=[s for s in hourly.saves if s <= START + 8 * HOUR])
    (told,) = warnings(stopped, POLICY)
    assert told.early is Early.UNSAVED
    assert "for 4.0 h, usually one comes every 60 min" in told.why
    assert found(replace(stopped, moving=False)) == [], "a hang is told by itself"
    assert found(replace(stopped, saves=stopped.saves[:2])) == [], "nothing is known of how often it saves"


def test_a_job_that_waited_long_in_the_queue_misses_no_save() -> None:
    assert found(running(0.5, every=10 * MINUTE)) == []
    saves = [START - 50 * HOUR + i * 10 * MINUTE for i in range(20)]
    assert found(Ahead(now=START + 20 * MINUTE, started=START, saves=saves)) == []


def test_each_warning_can_be_switched_off() -> None:
    poor = running(20.1, every=5 * HOUR, room=Room(1, 1, save_bytes=GB, save_files=10))
    assert found(poor) == [Early.LIMIT, Early.ROOM]
    assert found(poor, policy=Warnings(lost_at_limit=timedelta(0), free_checkpoints=0)) == []
    assert found(poor, policy=Warnings(enabled=False)) == []
