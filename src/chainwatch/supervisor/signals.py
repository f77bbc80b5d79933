"""What the daemon is asked to do by signals.

A handler may run at any moment of the main thread, also inside another handler: it sets plain attributes and writes a byte
to the clock's pipe, and touches no lock.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from chainwatch.model.clock import SystemClock
from chainwatch.supervisor.outside import Outside

_Handler = Callable[[int, FrameType | None], None]


class Wishes:
    """Asked for by signals, looked up by the loop. However many of them come before the loop looks: it is one wish."""

    def __init__(self, clock: SystemClock, outside: Outside) -> None:
        self.stop = False
        """SIGTERM or SIGINT came."""
        self.reload = False
        """SIGHUP came. Whoever grants it says False first, so that one that comes meanwhile counts."""
        self.look = False
        """SIGUSR1 came: the next pass is wanted now. Granted in the same way."""
        self._clock, self._outside = clock, outside

    def rereading(self) -> AbstractContextManager[None]:
        """Inside, SIGHUP is a wish. From before the configuration is read, since it may change right after that."""
        return _handled({signal.SIGHUP: self._reread})

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, the other signals are wishes too."""
        wanted: dict[int, _Handler] = {
            signal.SIGTERM: self._end,
            signal.SIGINT: self._end,
            signal.SIGUSR1: self._look,
            signal.SIGALRM: self._outside.alarm,
        }
        with _handled(wanted):
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop = True
        self._clock.wake()
        self._outside.stop()

    def _reread(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.reload = True
        self._clock.wake()

    def _look(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.look = True
        self._clock.wake()


@contextmanager
def _handled(wanted: Mapping[int, _Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
