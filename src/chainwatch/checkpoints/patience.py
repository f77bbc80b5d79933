"""Reading in a child process that may be given up: a file system that hangs stalls the child, never the caller.

A process that waits for a dead file server cannot be interrupted, not even by SIGKILL. Its parent can: it forked before
it touched the path, and waits with a limit. The limit is on standing still, not on the whole: a child that uses the
processor, is switched, or reads goes on for as long as it needs.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Callable, Union

PATIENCE = 60.0
"""Seconds that storage may stand still. A mount that recovers from a failover of its server takes some 45 s."""
CHECKS = 4
"""How often the child is looked at within that time."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell says it."""


class StandsStill(Exception):
    """The child neither computed nor read for the whole patience; it was left behind."""


class Killed(Exception):
    """The child was ended by a signal; its text says which."""


def bounded(work: Callable[[], int], patience: float = PATIENCE) -> int:
    """Do `work` in a child process, which prints what there is to print; the exit code that it returns.

    Raises:
        StandsStill: nothing moved for `patience` seconds.
        Killed: a signal ended the child (out of memory, most likely).
    """
    import select

    sys.stdout.flush()
    sys.stderr.flush()
    ended, alive = os.pipe()  # the child's end closes when it ends, however it ends
    pid = os.fork()
    if pid == 0:
        _child(work)
    os.close(alive)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    before: Union[str, None] = None
    still = 0
    try:
        while not waiting.poll(patience * 1000 / CHECKS):
            now = _life(pid)
            still = still + 1 if now == before or now is None else 0
            before = now
            if still >= CHECKS:
                raise StandsStill
    except (StandsStill, KeyboardInterrupt) as reason:
        os.kill(pid, 9)  # it prints nothing any more, should the file system ever answer
        if isinstance(reason, StandsStill):
            raise
        return INTERRUPTED
    finally:
        os.close(ended)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise Killed(f"signal {os.WTERMSIG(status)}")
    return os.WEXITSTATUS(status)


def _child(work: Callable[[], int]) -> None:
    code = INTERRUPTED
    try:
        code = work()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        code = 0  # whoever read it has read enough
    except Exception as error:  # noqa: BLE001 - the parent has nobody else who would say it
        sys.stderr.write(f"chainwatch: {type(error).__name__}: {error} (a fault of chainwatch)\n")
        code = 2
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            pass  # whoever read it is gone
        os._exit(code)


def _life(pid: int) -> Union[str, None]:
    """Whatever moves while a process does something: its processor time, its switches, its reads. None: unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            used = file.read().rpartition(")")[2].split()[11:13]
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            switches = [line for line in file if "ctxt_switches" in line]
        with open(f"/proc/{pid}/io", encoding="ascii") as file:  # of all its threads
            return f"{used}{switches}{file.read()}"
    except (OSError, IndexError):
        return None
