from __future__ import annotations

from datetime import timedelta

import pytest

from chainwatch.simulation import VirtualClock


def test_sleep_lets_events_happen_in_order_of_time_and_of_planning() -> None:
    clock, seen = VirtualClock(), []
    clock.after(20, lambda: seen.append(("late", clock.monotonic())))
    clock.after(10, lambda: seen.append(("first", clock.monotonic())))
    clock.after(10, lambda: seen.append(("second", clock.monotonic())))
    clock.sleep(15)
    assert seen == [("first", 10), ("second", 10)]
    assert clock.monotonic() == 15
    clock.sleep(15)
    assert seen[-1] == ("late", 20)


def test_an_event_may_plan_another_within_the_same_sleep() -> None:
    clock, seen = VirtualClock(), []
    clock.after(1, lambda: clock.after(1, lambda: seen.append(clock.monotonic())))
    clock.sleep(5)
    assert seen == [2]


def test_a_cancelled_event_does_not_happen() -> None:
    clock, seen = VirtualClock(), []
    timer = clock.after(1, lambda: seen.append(1))
    timer.cancel()
    clock.sleep(5)
    assert not seen
    assert not timer.due


def test_wake_ends_a_sleep_early_but_not_the_time_that_a_call_takes() -> None:
    clock = VirtualClock()
    clock.after(3, clock.wake)
    clock.advance(5)
    clock.sleep(100)
    assert clock.monotonic() == 5, "woken during the call, so the next sleep returns at once"
    clock.after(3, clock.wake)
    clock.sleep(100)
    assert clock.monotonic() == 8


def test_the_wall_clock_may_jump_and_monotonic_does_not() -> None:
    clock = VirtualClock()
    before = clock.now()
    clock.set_wall(-3600)
    clock.sleep(1)
    assert clock.now() - before == timedelta(seconds=-3599)
    assert clock.monotonic() == 1


def test_an_event_that_sleeps_is_a_mistake_and_says_so() -> None:
    clock = VirtualClock()
    clock.after(1, lambda: clock.sleep(1))
    with pytest.raises(RuntimeError, match="tried to sleep"):
        clock.sleep(2)
