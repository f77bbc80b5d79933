"""Reading as a guest: idle I/O priority for this thread, and a limit on bytes per second, of one task or of the process."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock  # `threading` and `typing` would double the start of `chainwatch latest`

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Callable, Optional

IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "riscv64": 30, "s390x": 282}
"""System call numbers of ioprio_set (Linux; the C library has no wrapper)."""
IDLE, NORMAL = 3 << 13, 0
"""The idle class: served only when nobody else asks; 0 goes back to what nice says."""


class Throttle:
    """Called with bytes read; sleeps so that on average no more than `rate` bytes per second are read."""

    def __init__(
        self,
        rate: Optional[float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free = clock()
        """When the bytes so far may have been read at the earliest."""
        self._lock = allocate_lock()

    def __call__(self, count: int) -> None:
        if not self.rate:
            return
        with self._lock:
            now = self._clock()
            # Time that was not used is not saved up: a pause must not be followed by a burst.
            free = self._free = max(self._free, now) + count / self.rate
        if free > now:
            self._sleep(free - now)


_process = Throttle(None)


def limit(rate: Optional[float]) -> None:
    """From now on every reader of checkpoints in this process keeps to so many bytes per second; None: no limit.

    It is the site's budget, so it is one for all threads and tasks, beside whatever a single task is given.
    """
    global _process
    _process = Throttle(rate)


def limited() -> bool:
    """A limit is set for this process."""
    return _process.rate is not None


def spend(count: int) -> None:
    """Bytes were read; sleeps where the process has a limit and is beyond it."""
    _process(count)


class idle_io:
    """Idle I/O priority for the calling thread inside `with`, where the system has such a thing."""

    def __enter__(self) -> None:
        self._changed = _set_priority(IDLE)

    def __exit__(self, *_: object) -> None:
        if self._changed:
            _set_priority(NORMAL)


def _set_priority(value: int) -> bool:
    number = IOPRIO_SET.get(os.uname().machine)
    if number is None or os.uname().sysname != "Linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, value) == 0)
    except (ImportError, OSError, AttributeError):
        return False
