"""A sign of life: what a program says of itself, and what `chainwatch exec` says of its node.

`heartbeat(step=…)` costs a comparison of two numbers nearly always; it writes a small file every ten seconds and never
raises.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, Optional

from chainwatch.job.place import directory_of, task_of, write_json

EVERY = 10.0
"""Seconds between two writes of one process."""
FILE = "CHAINWATCH_HEARTBEAT"
"""Names the file to write; `chainwatch exec` sets it. Without it the file is found from Slurm's variables."""
PREFIX = "step-"

_last = float("-inf")
_phase: Optional[str] = None


def heartbeat(
    step: Optional[int] = None, total: Optional[int] = None, loss: Optional[float] = None, phase: str = "training"
) -> None:
    """Say that this process lives, and how far it is.

    Args:
        step: training step that was just finished.
        total: the final step.
        loss: the newest loss, NaN included.
        phase: `training`, `evaluation`, `saving` or `startup`; a change is written at once.
    """
    global _last, _phase
    now = time.monotonic()
    if now - _last < EVERY and phase == _phase:
        return
    _last, _phase = now, phase
    try:
        path = os.environ.get(FILE) or _own_file()
        if path:
            content: Dict[str, Any] = {"at": time.time(), "phase": phase}
            for name, value in (("step", step), ("total", total), ("loss", loss)):
                if value is not None:
                    content[name] = float(value) if name == "loss" else int(value)
            write_json(path, content)
    except Exception:  # noqa: BLE001 - a sign of life must never end what lives
        pass


def _own_file() -> str:
    task = task_of(os.environ)
    if not task.job:
        return ""
    return os.path.join(directory_of(os.environ, task), "%s%d.json" % (PREFIX, task.rank))


class NodeBeat:
    """A thread that says every `every` seconds that this node's task lives. Storage that hangs stalls only the thread."""

    def __init__(self, path: str, facts: Callable[[], Dict[str, Any]], every: float = 30.0) -> None:
        self._path = path
        self._facts = facts
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chainwatch-beat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while True:
            try:
                write_json(self._path, {"at": time.time(), **self._facts()})
            except OSError:
                pass
            if self._stop.wait(self._every):
                return
