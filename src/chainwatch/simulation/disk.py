"""A run directory in memory: checkpoints with the truth about each, the framework's pointer, the resume file, logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from chainwatch.model.checkpoint import Checkpoint, Problem, RunReport, Status
from chainwatch.model.verdict import Line
from chainwatch.simulation.clock import VirtualClock


@dataclass(slots=True, eq=False)
class SavedState:
    """One checkpoint directory as it really is."""

    path: str
    step: int
    status: Status
    modified: float
    writer: object = None
    """Who writes it now, or wrote it last."""
    torn: bool = False
    """Two wrote it at the same time."""
    cut: bool = False
    """Its writer died while it wrote."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log."""

    at: float
    text: str
    writer: int
    """Job id of the run that wrote it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Somebody other than the training moved a checkpoint."""

    at: float
    source: str
    target: str
    status: Status
    """What the checkpoint was at that moment."""


@dataclass(slots=True, eq=False)
class Disk:
    """The storage of one chain."""

    clock: VirtualClock
    directory: str
    format: str = "simulated"
    """Name of the checkpoint format in reports."""
    states: dict[str, SavedState] = field(default_factory=dict)
    pointer: str | None = None
    """What the framework's own pointer file names."""
    resume_file: str | None = None
    """What the file behind CHAINWATCH_RESUME_FILE names."""
    finished_at: float | None = None
    """When the final step was saved and the completion mark written."""
    reached: int = 0
    """The highest training step that any run logged."""
    logs: dict[str, list[LogLine]] = field(default_factory=dict)
    moves: list[Moved] = field(default_factory=list)
    aside: dict[str, SavedState] = field(default_factory=dict)
    """What was moved aside, by its present path."""
    hangs: bool = False
    """The storage does not answer: reads of it must raise `StorageHangs`."""

    def path_of(self, step: int) -> str:
        """Where the training saves that step."""
        return f"{self.directory}/checkpoint-{step}"

    @property
    def finished(self) -> bool:
        """The training is truly done."""
        return self.finished_at is not None

    # -- the training writes ---------------------------------------------------------------------------------------

    def begin_save(self, step: int, writer: object) -> SavedState:
        """A save begins; a checkpoint of the same step is overwritten from this moment on."""
        path = self.path_of(step)
        old = self.states.get(path)
        torn = old is not None and old.status is Status.IN_PROGRESS and old.writer is not writer
        state = SavedState(path, step, Status.IN_PROGRESS, self.clock.time, writer, torn)
        if old is not None and torn:
            old.torn = True
        self.states[path] = state
        return state

    def finish_save(self, state: SavedState) -> None:
        """A save is complete, unless two wrote into it."""
        current = self.states.get(state.path)
        if current is None:
            return
        current.modified = self.clock.time
        if current is state and not state.torn:
            state.status = Status.INTACT
            self.pointer = state.path
        elif current.writer is not state.writer:
            current.torn = True
        else:
            current.status = Status.DAMAGED

    def cut_save(self, state: SavedState, fraction: float) -> None:
        """The writer died after that part of the save: files are missing, or one is truncated."""
        current = self.states.get(state.path)
        if current is state:
            state.status = Status.DAMAGED if fraction >= 0.5 else Status.INCOMPLETE
            state.modified = self.clock.time
            state.cut = True

    def drop_old(self, keep: int) -> None:
        """The training deletes its own oldest checkpoints; only as many intact ones as `keep` stay."""
        intact = sorted((s for s in self.states.values() if s.status is Status.INTACT), key=lambda s: s.step)
        for state in intact[: max(0, len(intact) - keep)]:
            del self.states[state.path]

    def write(self, path: str, text: str, writer: int) -> None:
        """One line more in a log."""
        self.logs.setdefault(path, []).append(LogLine(self.clock.time, text, writer))

    # -- others write ----------------------------------------------------------------------------------------------

    def set_aside(self, path: str, target: str | None = None) -> str:
        """Move a checkpoint out of the training's sight; the new path. Raises FileNotFoundError."""
        if path not in self.states:
            raise FileNotFoundError(path)
        state = self.states.pop(path)
        target = target or f"{self.directory}/.set-aside/{path.rsplit('/', 1)[-1]}"
        self.moves.append(Moved(self.clock.time, path, target, state.status))
        self.aside[target] = state
        return target

    def restore(self, target: str) -> str:
        """Undo `set_aside`; the original path. Raises FileNotFoundError, FileExistsError."""
        if target not in self.aside:
            raise FileNotFoundError(target)
        if self.aside[target].path in self.states:
            raise FileExistsError(self.aside[target].path)
        state = self.aside.pop(target)
        self.states[state.path] = state
        return state.path

    def rot(self, path: str) -> None:
        """Bits flip in a checkpoint that was intact."""
        if path in self.states:
            self.states[path].status = Status.DAMAGED

    def delete(self, path: str) -> None:
        """The user deletes a checkpoint."""
        self.states.pop(path, None)

    # -- what is there ---------------------------------------------------------------------------------------------

    def newest_intact(self, avoid: Collection[str] = ()) -> SavedState | None:
        """The truth: the best checkpoint to resume from, those of `avoid` left out."""
        intact = [s for s in self.states.values() if s.status is Status.INTACT and s.path not in avoid]
        return max(intact, key=lambda s: s.step, default=None)

    def highest(self) -> SavedState | None:
        """What a naive resume picks: the highest number, whatever its state."""
        return max(self.states.values(), key=lambda s: s.step, default=None)

    def report(self, settle: float = 120.0) -> RunReport:
        """What an inventory of the directory finds now. Raises `StorageHangs`.

        Nobody can see whether an unfinished checkpoint still has a writer: it counts as in progress until nothing
        changed in it for `settle` seconds.
        """
        if self.hangs:
            raise StorageHangs(f"{self.directory} does not answer")
        found = tuple(self._seen(s, settle) for s in sorted(self.states.values(), key=lambda s: s.step))
        best = max((c for c in found if c.intact), key=lambda c: c.step or 0, default=None)
        return RunReport(self.directory, self.format if found else None, found, best, self.pointer)

    def lines(self, path: str, since: float = 0.0) -> Sequence[Line]:
        """The lines of a log that were written since a moment. Raises `StorageHangs`."""
        if self.hangs:
            raise StorageHangs(f"{path} does not answer")
        numbered = enumerate(self.logs.get(path, ()), 1)
        return [Line(path, number, line.text) for number, line in numbered if line.at >= since]

    def _seen(self, state: SavedState, settle: float) -> Checkpoint:
        modified = self.clock.time if state.status is Status.IN_PROGRESS else state.modified
        status = state.status
        if status is Status.IN_PROGRESS or state.cut:
            unfinished = Status.INCOMPLETE if status is Status.IN_PROGRESS else status
            status = Status.IN_PROGRESS if self.clock.time - modified < settle else unfinished
        problem = _PROBLEMS.get(status)
        reason = problem.sentence() if problem else "every file is complete"
        problems = (problem,) if problem else ()
        return Checkpoint(state.path, state.step, self.format, status, reason, problems, modified=modified)


class StorageHangs(OSError):
    """Reading the simulated storage would block: the reader's deadline passes."""


_PROBLEMS = {
    Status.DAMAGED: Problem("rank_0_model_states.pt", "truncated", "9,200,000,000 bytes", "510,000 bytes"),
    Status.INCOMPLETE: Problem("rank_0_optim_states.pt", "missing", "the file", "no such file"),
    Status.IN_PROGRESS: Problem("rank_0_optim_states.pt", "missing", "the file", "not yet written"),
}
