"""Silence judged. The table over generated histories is in `test_hang_replay`."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.config.models import Hang
from chainwatch.diagnosis.hang import STARTUP, Look, Pace, Watch, fell_silent_together, observe
from tests.diagnosis.replay import BEGIN, DEFAULTS, POLL, Event, Replay, steps


def test_a_suspended_job_is_no_hang_and_gets_its_own_time_afterwards() -> None:
    def seen(look: Look) -> Look:
        asleep = timedelta(hours=2) < look.at - BEGIN < timedelta(hours=30)
        return replace(look, running=not asleep, life="asleep" if asleep else look.life)

    rng = random.Random(1)
    events = list(steps(rng, 10, 1400))
    events.insert(700, Event(28 * 3600 + 600))
    assert Replay().play(iter(events), 31, seen=seen) is None


def test_storage_that_does_not_answer_adds_no_silence() -> None:
    replay = Replay()
    alarm = replay.play(
        steps(random.Random(1), 10, 300),
        20,
        seen=lambda look: replace(look, answered=look.step is None or look.step < 300),
    )
    assert alarm is None


@pytest.mark.parametrize("jump", [timedelta(hours=5), timedelta(hours=-5)])
def test_a_clock_that_jumps_raises_nothing(jump: timedelta) -> None:
    def seen(look: Look) -> Look:
        return replace(look, at=look.at + (jump if look.at - BEGIN > timedelta(hours=1) else timedelta(0)))

    assert Replay().play(steps(random.Random(1), 30, 2000), 6, seen=seen) is None


def test_a_daemon_that_was_down_counts_nothing_of_that_time() -> None:
    watch, pace = observe(None, Pace(), Look("1", BEGIN, True, "a", step=5), POLL)
    watch, pace = observe(watch, pace, Look("1", BEGIN + timedelta(hours=9), True, "a", step=5), POLL)
    assert watch.silent == POLL.total_seconds()


def test_a_restart_that_is_stuck_in_start_up_is_a_hang_though_its_download_bar_grows() -> None:
    replay = Replay()
    assert replay.play(steps(random.Random(1), 10, 500), 1) is None
    alarm = replay.play((Event(20.0) for _ in range(10_000)), 10)
    assert alarm is not None
    assert alarm.phase == STARTUP
    assert DEFAULTS.startup <= alarm.silent <= DEFAULTS.startup + 2 * POLL
    assert "no training step for 6" in alarm.sentence


def test_a_run_whose_steps_nothing_can_read_is_not_called_stuck_while_its_log_grows() -> None:
    assert Replay().play((Event(20.0) for _ in range(10_000)), 10) is None


def test_a_mark_of_evaluation_from_an_earlier_attempt_does_not_count() -> None:
    replay = Replay()
    replay.play(iter([*steps(random.Random(1), 10, 400), Event(1.0, phase="evaluation")]), 1.3)
    assert replay.watch is not None
    assert replay.watch.phase == "evaluation"
    alarm = replay.play(steps(random.Random(1), 10, 200, first=390), 10)
    assert alarm is not None
    assert (alarm.phase, alarm.silent < timedelta(minutes=18)) == ("training", True)


def test_the_configured_time_is_kept_to() -> None:
    alarm = Replay().play(steps(random.Random(1), 10, 200), 10, Hang(alert_after=timedelta(minutes=5)))
    assert alarm is not None
    assert alarm.silent < timedelta(minutes=8)
    assert "at step 200" in alarm.sentence


def test_many_chains_that_fall_silent_together_are_no_hangs() -> None:
    quiet = Watch("1", BEGIN + timedelta(minutes=20), True, "x", BEGIN, silent=1200, step=4, first=1)
    other = replace(quiet, alive_at=BEGIN + timedelta(minutes=2))
    busy = replace(quiet, silent=0.0, alive_at=BEGIN + timedelta(minutes=20))
    assert fell_silent_together("a", {"a": quiet, "b": other, "c": quiet, "d": busy}) == ("a", "b", "c")
    assert fell_silent_together("a", {"a": quiet, "b": other}) == ("a", "b")
    assert fell_silent_together("a", {"a": quiet, "b": other, "d": busy}) == ()
    assert fell_silent_together("a", {"a": quiet}) == ()


def test_what_was_stored_by_another_version_is_nothing_rather_than_an_error() -> None:
    for value in (None, 3, {}, {"counts": 1}, {"counts": {"x": {"y": 1}}, "longest": {}}):
        assert Pace.of(value) == Pace()
    assert Watch.of({"attempt": "1", "at": "yesterday"}) is None
