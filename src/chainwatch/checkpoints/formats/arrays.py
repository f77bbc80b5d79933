"""Single files of arrays: numpy's `.npz` and `.npy`, and HDF5, where their name says that they are checkpoints.

Data sets have the same endings, so a name must hold a step, or a word such as `model` or `ckpt`.
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.checkpoints.patterns import IGNORECASE, Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterable, Tuple

_WORDS = Pattern(
    r"ckpt|checkpoint|model|weight|state|param|optim|latest|last|best|final|step|epoch|iter|snapshot|save",
    IGNORECASE,
)


class Arrays(Layout):
    """Files with certain endings, each a checkpoint."""

    endings: Tuple[str, ...] = ()

    def named(self, name: str) -> bool:
        return name.endswith(self.endings)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if name.endswith(self.endings) and not name.endswith(".weights.h5"):
                step = step_of(name)
                if step is not None or _WORDS.search(name):
                    yield Candidate(self, run, name, step)

    def judge(self, candidate: Candidate, look: Look) -> None:
        look.file(candidate.name)
