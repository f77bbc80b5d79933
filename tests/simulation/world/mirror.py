"""A simulated run directory whose checkpoints also stand on the real disk, so that real moves can be tried on them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from chainwatch.simulation import Disk, VirtualClock
from chainwatch.simulation.disk import Moved, SavedState
from chainwatch.simulation.training import CORRUPT_LINE  # noqa: F401 - read by the signatures of the real matcher

FORMAT = "deepspeed"
"""A format with a pointer file (`latest`)."""


class MirroredDisk(Disk):
    """Each checkpoint is an (almost empty) real directory. What the daemon renames there is seen by the training."""

    def __init__(self, clock: VirtualClock, root: Path) -> None:
        super().__init__(clock, str(root), format=FORMAT)
        root.mkdir(parents=True)
        self.root = root
        self.dropped: set[str] = set()
        """What the training or the user itself deleted."""

    def begin_save(self, step: int, writer: object) -> SavedState:
        self.look()
        os.makedirs(self.path_of(step), exist_ok=True)
        self.dropped.discard(self.path_of(step))
        return super().begin_save(step, writer)

    def finish_save(self, state: SavedState) -> None:
        self.look()
        super().finish_save(state)
        if self.pointer == state.path:
            (self.root / "latest").write_text(os.path.basename(state.path))

    def drop_old(self, keep: int) -> None:
        before = set(self.states)
        super().drop_old(keep)
        self._gone(before)

    def delete(self, path: str) -> None:
        before = set(self.states)
        super().delete(path)
        self._gone(before)

    def look(self) -> None:
        """Take over what somebody did to the real directory."""
        for path in [p for p in self.states if not os.path.isdir(p)]:
            state = self.states.pop(path)
            self.moves.append(Moved(self.clock.time, path, "", state.status))
            self.aside[f"{path}@{self.clock.time}"] = state
        try:
            named = (self.root / "latest").read_text().strip()
        except OSError:
            return
        self.pointer = f"{self.directory}/{named}"

    def _gone(self, before: set[str]) -> None:
        for path in before - set(self.states):
            self.dropped.add(path)
            shutil.rmtree(path, ignore_errors=True)
