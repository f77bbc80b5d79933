"""How long to wait after a failed delivery."""

from __future__ import annotations

from datetime import timedelta

from tenacity import RetryCallState, wait_exponential, wait_random

FIRST, LONGEST = timedelta(seconds=30), timedelta(minutes=30)
_wait = wait_exponential(multiplier=FIRST.total_seconds(), max=LONGEST.total_seconds()) + wait_random(0, 15)


def pause_after(tries: int, asked: timedelta | None = None) -> timedelta:
    """Exponential from 30 seconds to half an hour, with up to 15 seconds of jitter; at least what the server asked for.

    A server that asks for more than a day is not believed: an alert that is a day late is lost. Tenacity's arithmetic
    without its loop, since the wait outlives the process: it is kept in the store.
    """
    # tenacity asks a state for nothing but the number of the attempt
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = min(max(1, tries), 30)
    pause = timedelta(seconds=_wait(state))
    return max(pause, min(asked, timedelta(days=1))) if asked else pause
