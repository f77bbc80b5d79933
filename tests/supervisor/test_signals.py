"""Signals: plain wishes, and no lock in any handler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta

from chainwatch.model.clock import SystemClock
from chainwatch.supervisor.outside import Outside
from chainwatch.supervisor.signals import Wishes

_AT_EVERY_LINE = """
import signal, sys
from chainwatch.model.clock import SystemClock
from chainwatch.supervisor.outside import Outside
from chainwatch.supervisor.signals import Wishes

clock, came = SystemClock(), 0
wishes = Wishes(clock, Outside())

def struck(frame, event, argument):
    global came
    came += 1
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
        signal.raise_signal(number)
    return struck

with wishes.rereading(), wishes.heard():
    sys.settrace(struck)
    for _ in range(20):
        clock.sleep(0.01)
        clock.wake()
    sys.settrace(None)
print(came, wishes.reload, wishes.stop)
"""


def test_a_signal_at_any_line_of_the_sleep_and_of_the_waking_blocks_nobody() -> None:
    """The kind: the lock of a threading.Event, taken by a handler while its own thread holds it."""
    ask = [sys.executable, "-c", _AT_EVERY_LINE]
    done = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True)
    came, *wishes = done.stdout.split()
    assert int(came) > 100
    assert wishes == ["True", "True"]


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
