"""Starting a command and standing in for it: its exit code, and the signals that are meant for it.

Slurm signals sometimes one process of a step, sometimes all of them (that depends on the signal, on the process tracking
plugin, and on who calls). A program that gets SIGTERM twice may take the second one for an order to drop its save. So a
*witness*, a sleeping process beside the command, tells: what it got too, the command got as well; what only we got is
passed on.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

WATCHED = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")
)
WITNESS_SECONDS = 0.25
"""How long the witness is waited for: Slurm signals the processes of a step in one go."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126

Noted = Callable[[signal.Signals, float], None]


class Witness:
    """A process that gets what is sent to the whole group or step, and says so over a pipe."""

    def __init__(self, numbers: Sequence[int]) -> None:
        """Called with `numbers` blocked, so that nothing is lost while it starts."""
        self.fd, out = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _testify(out, parent, numbers)
            finally:
                os._exit(0)
        os.close(out)
        self._seen: List[int] = []

    def saw(self, number: int, patience: float = WITNESS_SECONDS) -> bool:
        """It got this signal too (each one that it got counts once)."""
        end = time.monotonic() + patience
        while number not in self._seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                return False
            got = os.read(self.fd, 64)
            if not got:
                return False
            self._seen.extend(got)
        self._seen.remove(number)
        return True

    def end(self) -> None:
        os.close(self.fd)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except OSError:
            pass


def _testify(out: int, parent: int, numbers: Sequence[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)  # whoever reads our output must see its end when the command ends
    os.closerange(3, out)
    os.closerange(out + 1, 256)
    while os.getppid() == parent:
        got = signal.sigtimedwait(numbers, 5.0)
        if got is not None:
            os.write(out, bytes([got.si_signo]))


class Ended:
    """How the command ended: `code` as a shell gives it, and the signal that killed it, if one did."""

    def __init__(self, returncode: int) -> None:
        self.signal = -returncode if returncode < 0 else None
        self.exit_code = None if returncode < 0 else returncode
        self.code = 128 - returncode if returncode < 0 else returncode


def stand_in(
    command: Sequence[str], environment: Mapping[str, str], noted: Noted, running: Callable[[], None] = lambda: None
) -> Ended:
    """Run the command to its end. `noted` is told of each signal after it was passed on (or not), with its time;
    `running` is called when the command runs (a thread of ours must not be there when the witness forks).

    Signals that were ignored when we started stay ignored. Raises OSError where the command cannot be started.
    """
    numbers = [number for number in WATCHED if signal.getsignal(number) != signal.SIG_IGN]
    queue: List[Tuple[int, float]] = []
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    witness: Optional[Witness] = None
    before = {}
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)
    try:
        witness = Witness(numbers)
        for number in numbers:
            before[number] = signal.signal(number, lambda n, _: queue.append((n, time.time())))
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda n, _: None)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        child = subprocess.Popen(list(command), env=dict(environment), close_fds=False)
        running()
        while True:
            while queue:
                number, at = queue.pop(0)
                if not witness.saw(number):
                    child.send_signal(number)
                noted(signal.Signals(number), at)
            returncode = child.poll()
            if returncode is not None:
                return Ended(returncode)
            if select.select([wake_in], [], [], 60.0)[0]:
                os.read(wake_in, 512)
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        if witness is not None:
            witness.end()
        os.close(wake_in)
        os.close(wake_out)
