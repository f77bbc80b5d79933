"""What can be said of a saved training state.

Kept light, and valid for Python 3.8: `chainwatch latest` and the job side import this module and nothing else of the
model, on login nodes, compute nodes and in containers.
"""

from __future__ import annotations

from chainwatch.model.light import NamedTuple, StrEnum

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

# Annotations are never evaluated on Python 3.8; where they are (the store's JSON), `X | None` needs no import.


class Status(StrEnum):
    """The four answers for a checkpoint."""

    INTACT = "intact"
    DAMAGED = "damaged"
    INCOMPLETE = "incomplete"
    IN_PROGRESS = "in_progress"


class Problem(NamedTuple):
    """One thing that is wrong with one file of a checkpoint."""

    file: str
    """Path relative to the checkpoint (its own name where the checkpoint is one file)."""
    code: str
    """A stable word for scripts: truncated, missing, empty, checksum, unreadable, structure, world_size, step, …"""
    expected: str
    found: str

    def sentence(self) -> str:
        """One clause for people: the file, what was expected and what is there."""
        if self.expected and self.found:
            return f"{self.file}: {self.found}; expected {self.expected}"
        return f"{self.file}: {self.found or self.expected or self.code}"


class Checkpoint(NamedTuple):
    """One saved training state and the verdict on it."""

    path: str
    """Absolute path of the directory, the file, or (TF) the prefix."""
    step: int | None
    """Training step that it holds; None where nothing says it."""
    format: str
    """Name of the format that judged it (`deepspeed`, `hf_trainer`, `dcp`, …)."""
    status: Status
    reason: str
    """One sentence: the decisive file, what was expected, what is there. For an intact one: what was checked."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    unverifiable: bool = False
    """True where the format carries no checksum (and no seal exists): flipped bits in tensor data cannot be seen."""
    modified: float = 0.0
    """Newest mtime of its files, epoch seconds; 0 where unknown."""
    size: int = 0
    """Bytes of its files, as far as they were looked at."""
    settles: float = 0.0
    """Of one in progress: when it counts as given up if nothing changes any more, epoch seconds. 0 where a process holds it
    open for writing, or it is not in progress."""

    @property
    def intact(self) -> bool:
        return self.status is Status.INTACT


class RunReport(NamedTuple):
    """All checkpoints found under one run directory (or at one path), oldest first."""

    path: str
    format: str | None
    checkpoints: tuple[Checkpoint, ...]
    newest_intact: Checkpoint | None
    """The checkpoint to resume from: the intact one with the highest step (newest mtime where no step is known)."""
    pointer: str | None = None
    """What the framework's own pointer file (`latest`, `latest_checkpointed_iteration.txt`, …) names, if there is one:
    the absolute path of the checkpoint that a naive resume would pick."""
    unknown: tuple[str, ...] = ()
    """Where there is no checkpoint: files that look like saves of no known format, relative to `path`."""
    took: float = 0.0
    """Seconds that it took to look, where somebody measured it."""


def unknown_sentence(path: str, names: Sequence[str]) -> str:
    """What is said of files that look like saves and are of no known format."""
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    files = "1 file" if len(names) == 1 else f"{len(names)} files"
    looks = "looks like a save" if len(names) == 1 else "look like saves"
    but = "it is not" if len(names) == 1 else "none is"
    return f"{files} under {path} {looks} ({shown}), but {but} of a format that chainwatch knows"
