"""Signals: plain wishes, and no lock in any handler."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

from chainwatch.model.clock import SystemClock
from chainwatch.supervisor.outside import Outside
from chainwatch.supervisor.signals import Wishes


def test_signals_that_meet_the_sleep_and_each_other_block_nobody() -> None:
    """The kind: the lock of a threading.Event, taken by a handler while its own thread holds it."""
    clock = SystemClock()
    wishes = Wishes(clock, Outside())
    over = False

    def storm() -> None:
        while not over:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0)

    with wishes.rereading():
        thread = threading.Thread(target=storm, daemon=True)
        thread.start()
        for _ in range(3000):
            clock.sleep(0.001)
        over = True
        thread.join(10)
    assert wishes.reload
    assert not wishes.stop


def test_a_wake_that_comes_before_the_sleep_ends_it_and_a_flood_of_them_ends_one() -> None:
    clock = SystemClock()
    for _ in range(100_000):  # more than a pipe holds
        clock.wake()
    begun = clock.monotonic()
    clock.sleep(30)
    assert clock.monotonic() - begun < 10
    begun = clock.monotonic()
    clock.sleep(0.2)
    assert timedelta(seconds=clock.monotonic() - begun) >= timedelta(seconds=0.2)


def test_a_clock_that_nobody_holds_any_more_gives_its_pipe_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        SystemClock()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_handlers_are_put_back() -> None:
    watched = [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM]
    before = [signal.getsignal(number) for number in watched]
    wishes = Wishes(SystemClock(), Outside())
    with wishes.rereading(), wishes.heard():
        os.kill(os.getpid(), signal.SIGTERM)
        assert wishes.stop
    assert [signal.getsignal(number) for number in watched] == before
