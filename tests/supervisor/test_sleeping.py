"""What breaks off the loop's sleep, and how often: in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from chainwatch.store import Store
from chainwatch.supervisor.loop import SOON
from tests.supervisor.play import POLL, Play


def ticks(play: Play, ask: Callable[[], bool], wake_at: list[float], span: timedelta) -> list[int]:
    """Let the loop run for `span`, woken at these seconds. When it made a pass, in seconds."""
    begun = play.clock.monotonic()
    made: list[int] = []
    for second in wake_at:
        play.clock.after(second, play.clock.wake)
    play.supervisor.run(
        lambda: play.clock.monotonic() - begun >= span.total_seconds(),
        lambda: made.append(round(play.clock.monotonic() - begun)),
        ask,
    )
    return made


def test_what_a_signal_asks_for_is_granted_while_the_loop_sleeps_and_the_next_pass_comes_soon(play: Play) -> None:
    """The kind: a handler that ends one slice of a sleep, whose wish waits for the whole of it."""
    asked = []

    def ask() -> bool:
        asked.append(play.clock.monotonic())
        return len(asked) == 3  # before the sleep, at the first wake, at the second

    first, second, *_ = ticks(play, ask, [7.0, 20.0], POLL)
    assert (first, second) == (0, 20)
    asked.clear()
    assert ticks(play, lambda: True, [], 3 * SOON)[:3] == [0, 5, 10], "not sooner after the last one"


def test_a_storm_of_wakes_makes_no_pass_and_writes_no_more_to_the_database(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[datetime] = []
    renew = Store.renew_lease
    monkeypatch.setattr(Store, "renew_lease", lambda *a: (renewed.append(a[-1]), renew(*a))[1])
    made = ticks(play, lambda: False, [20 + n / 100 for n in range(1000)], POLL)
    assert made == [0]
    assert len(renewed) <= 2


def test_the_lease_stays_fresh_through_a_long_sleep(play: Play) -> None:
    play.supervisor.pause = lambda: timedelta(hours=1)  # type: ignore[method-assign]
    left = []

    def ask() -> bool:
        lease = play.house.lease
        assert lease is not None
        left.append(lease.until - play.clock.now())
        return False

    ticks(play, ask, [], timedelta(hours=1))
    assert len(left) > 20
    assert min(left) > timedelta(minutes=1)
