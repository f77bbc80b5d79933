"""A stop while the loop waits for something outside: a question ends at once, an effect has a moment."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from chainwatch.slurm.backend import Submission
from chainwatch.supervisor.outside import Outside, OutsideBackend, Stopped

MOMENT = 0.4


class Slow:
    """A cluster whose every call takes so many seconds."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.finished: list[str] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> int:
            time.sleep(self.seconds)
            self.finished.append(method)
            return 7

        return call


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside()

    def stop(*_: object) -> None:
        made.stop()

    wanted = {signal.SIGTERM: stop, signal.SIGALRM: made.alarm}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def a_short_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainwatch.supervisor.outside.MOMENT", MOMENT)


def told_to_stop(after: float) -> None:
    """SIGTERM comes after so many seconds."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(after, lambda: signal.pthread_kill(main, signal.SIGTERM)).start()


QUESTIONS: list[Callable[[OutsideBackend], object]] = [
    lambda b: b.queue("ada"),
    lambda b: b.accounting([1]),
    lambda b: b.accounting(since=datetime(2026, 1, 1, tzinfo=UTC), user="ada"),
    lambda b: b.job(1),
    lambda b: b.script(1),
    lambda b: b.nodes(),
    lambda b: b.info(),
]
EFFECTS: list[Callable[[OutsideBackend], object]] = [
    lambda b: b.submit(Submission("/x")),
    lambda b: b.cancel(1, pending_only=True),
    lambda b: b.hold(1),
    lambda b: b.release(1),
    lambda b: b.requeue(1),
]


@pytest.mark.parametrize("call", QUESTIONS)
def test_a_question_that_hangs_ends_at_once(outside: Outside, call: Callable[[OutsideBackend], object]) -> None:
    inner = Slow(30)
    told_to_stop(0.05)
    begun = time.monotonic()
    with pytest.raises(Stopped):
        call(OutsideBackend(inner, outside))  # type: ignore[arg-type]
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("call", EFFECTS)
def test_an_effect_that_hangs_ends_after_a_moment(outside: Outside, call: Callable[[OutsideBackend], object]) -> None:
    inner = Slow(30)
    told_to_stop(0.05)
    begun = time.monotonic()
    with pytest.raises(Stopped):
        call(OutsideBackend(inner, outside))  # type: ignore[arg-type]
    assert MOMENT * 0.9 < time.monotonic() - begun < MOMENT + 5


def test_an_effect_that_comes_to_its_end_within_the_moment_is_not_broken_off(outside: Outside) -> None:
    inner = Slow(0.3)
    told_to_stop(0.05)
    assert OutsideBackend(inner, outside).submit(Submission("/x")) == 7  # type: ignore[arg-type]
    assert inner.finished == ["submit"]


def test_between_two_waits_nothing_is_broken_off(outside: Outside) -> None:
    told_to_stop(0.05)
    end = time.monotonic() + 2 * MOMENT
    while time.monotonic() < end:
        time.sleep(0.05)
    with pytest.raises(Stopped), outside.asking():
        time.sleep(30)
