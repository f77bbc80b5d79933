"""Keras: `.keras` and `.weights.h5` files, written in place; the directory of the BackupAndRestore callback."""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look
from chainwatch.checkpoints.formats.tensorstore import load_json

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterable, Optional

BACKUP = "latest.weights.h5"
PROGRESS = "training_metadata.json"
ENDINGS = (".keras", ".weights.h5")


class Keras(Layout):
    """See the module."""

    name = "keras"

    def owns(self, folder: Folder) -> bool:
        return PROGRESS in folder.files

    def named(self, name: str) -> bool:
        return name.endswith(ENDINGS)

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        return super().candidate(run, name, None if folder is not None and not self.owns(folder) else folder)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if name.endswith(ENDINGS):
                yield super().candidate(run, name, None)

    def judge(self, candidate: Candidate, look: Look) -> None:
        if candidate.folder is None:
            look.file(candidate.name)
            return
        look.step = None
        look.file(BACKUP)
        progress = load_json(look, PROGRESS)
        epoch = progress.get("epoch") if isinstance(progress, dict) else None
        if isinstance(epoch, int):
            look.step = epoch
        elif progress is not None:
            look.problem(PROGRESS, "structure", "the epoch to go on with", "none")


LAYOUT = Keras()
