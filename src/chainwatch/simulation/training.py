"""A training run in virtual time: it steps, saves, is cut while saving, resumes by a rule, and fails in known ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from chainwatch.model.checkpoint import Status
from chainwatch.model.verdict import Progress
from chainwatch.simulation.clock import Timer
from chainwatch.simulation.disk import Disk, SavedState
from chainwatch.simulation.process import Process

RESUME_VARIABLE = "RESUME_FROM"
"""Environment variable (or first argument) that `ResumeRule.GIVEN` reads."""
CORRUPT_LINE = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
MARK = "training finished"
"""Completion mark: the line that proves the run done, followed by the final step."""


class ResumeRule(StrEnum):
    """How the script finds the checkpoint to resume from."""

    HIGHEST = "highest"
    """The highest step number, damaged or not: what naive scripts do."""
    GIVEN = "given"
    """A variable or argument fixed at submission; Slurm's requeue reuses it."""
    LATEST = "latest"
    """Asks `chainwatch latest` when it starts."""
    RESUME_FILE = "resume_file"
    """Reads the file behind CHAINWATCH_RESUME_FILE when it starts."""
    POINTER = "pointer"
    """The framework's own pointer file."""


class OnTerm(StrEnum):
    """What the training does at SIGTERM."""

    DIE = "die"
    """The default: it is gone at once, the batch script returns 143."""
    EXIT_1 = "exit_1"
    EXIT_0 = "exit_0"
    SAVE = "save"
    """Saves once more, then exits 0."""
    IGNORE = "ignore"


class Trouble(StrEnum):
    """Faults of the program itself."""

    CRASH = "crash"
    """A bug: an exception that a retry meets again."""
    NETWORK = "network"
    """A connection breaks; a retry helps."""
    NAN = "nan"
    HANG = "hang"


_LAST_WORDS = {
    Trouble.CRASH: "IndexError: index 4096 is out of range",
    Trouble.NETWORK: "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
    Trouble.NAN: "ValueError: loss is nan",
}


@dataclass(frozen=True, slots=True)
class TrainingFault:
    """Trouble at a training step, the first `times` times that it is reached (None: always)."""

    trouble: Trouble
    step: int
    times: int | None = 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one run trains. Times are seconds."""

    final_step: int = 10_000
    steps_per_second: float = 0.5
    save_every: int = 500
    """Steps between two saves."""
    save_seconds: float = 60.0
    """Training stands still while it saves."""
    startup: float = 45.0
    load: float = 30.0
    resume: ResumeRule = ResumeRule.HIGHEST
    on_term: OnTerm = OnTerm.DIE
    keep: int | None = 5
    """How many intact checkpoints the training itself keeps; None: all."""
    teardown_crash: bool = False
    """Exits 1 after it finished: the mark is written, then the teardown fails."""
    hides_exit: bool = False
    """The batch script returns 0 whatever its step returned."""
    faults: tuple[TrainingFault, ...] = ()

    @property
    def seconds(self) -> float:
        """What an undisturbed run takes."""
        saves = self.final_step // self.save_every
        return self.startup + self.final_step / self.steps_per_second + (saves + 1) * self.save_seconds


@dataclass(frozen=True, slots=True)
class Start:
    """What a run resumed from, and what it could have resumed from at that moment. The truth for invariants."""

    at: float
    path: str | None
    """None: from step 0."""
    step: int
    status: Status | None
    best: str | None
    """The newest intact checkpoint at that moment."""
    best_step: int | None
    some_existed: bool
    """Some checkpoint existed, intact or not."""


@dataclass(slots=True, eq=False)
class Training:
    """One chain's training: the `Script` of all its jobs."""

    recipe: Recipe
    disk: Disk
    is_faulty: Callable[[str], bool] = lambda node: False
    """Whether programs crash on a node."""
    read_file: Callable[[str], str | None] | None = None
    """Reads the file that CHAINWATCH_RESUME_FILE names; None: `Disk.resume_file` stands for it."""
    met: dict[TrainingFault, int] = field(default_factory=dict)
    trainers: list[Trainer] = field(default_factory=list)
    """Every run that ever started, oldest first."""

    def __call__(self, process: Process) -> Trainer:
        trainer = Trainer(self, process)
        process.run.notes["training"] = trainer
        self.trainers.append(trainer)
        return trainer

    def progress(self) -> Progress:
        """How far it is, as its logs and checkpoints say now."""
        for trainer in self.trainers[-2:]:
            if trainer.process.alive:
                self.disk.reached = max(self.disk.reached, trainer.step)
        life = "|".join(f"{trainer.process.run.started}:{trainer.step}" for trainer in self.trainers[-2:])
        best = self.disk.newest_intact()
        reached = self.disk.reached or None
        return Progress(step=reached, saved_step=best.step if best else None, target=self.recipe.final_step, life=life)

    def spend(self, fault: TrainingFault) -> bool:
        """A run reached the step of a fault: whether it strikes."""
        count = self.met[fault] = self.met.get(fault, 0) + 1
        return fault.times is None or count <= fault.times


@dataclass(slots=True, eq=False)
class Trainer:
    """One run of the training inside one job."""

    training: Training
    process: Process
    start_of: Start | None = None
    """What it resumed from; None while it has not come so far."""
    _at_step: int = 0
    _since: float | None = None
    """When it last began to step; None while it stands still."""
    _save: SavedState | None = None
    _save_began: float = 0.0
    _next: Timer | None = None
    _leaving: int | None = None
    """Exit code with which it ends after the save under way."""

    @property
    def step(self) -> int:
        """The training step that it has reached."""
        if self._since is None:
            return self._at_step
        passed = (self.process.clock.time - self._since) * self.training.recipe.steps_per_second
        return self._at_step + int(passed + 1e-6)

    # -- Program ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.output(f"starting on {','.join(self.process.launch.nodes)}")
        self.process.after(self.training.recipe.startup, self._resolve)

    def signalled(self, signal: str, batch: bool) -> None:
        how = self.training.recipe.on_term
        if signal != "TERM" or how is OnTerm.IGNORE or self._leaving is not None:
            return
        if how is OnTerm.SAVE and self._since is not None:
            self._leaving = 0
            self._stand_still()
            self._begin_save()
        elif how is OnTerm.SAVE and self._save is not None:
            self._leaving = 0  # after the save that is under way
        elif how is OnTerm.EXIT_1:
            self._end(1)
        elif how in {OnTerm.EXIT_0, OnTerm.SAVE}:
            self._end(0)
        elif batch:
            self._gone()
            self.process.step("0", 0, 15)
            self.process.exit(0, 15)
        else:
            self._end(143, signal=15)

    def killed(self) -> None:
        self._gone()
        self.process.step("0", 0, 9)

    def output(self, line: str) -> None:
        self.training.disk.write(self.process.launch.stdout, line, self.process.launch.job_id)

    # -- its life --------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        disk = self.training.disk
        path = self._chosen()
        self.process.after(self.training.recipe.load, lambda: self._load(path))
        self.output(f"resuming from {path}" if path else "starting from step 0")
        state, best = disk.states.get(path or ""), disk.newest_intact()
        self.start_of = Start(
            at=self.process.clock.time,
            path=path,
            step=state.step if state else 0,
            status=state.status if state else None,
            best=best.path if best else None,
            best_step=best.step if best else None,
            some_existed=bool(disk.states),
        )

    def _chosen(self) -> str | None:
        disk, launch = self.training.disk, self.process.launch
        highest = disk.highest()
        match self.training.recipe.resume:
            case ResumeRule.HIGHEST:
                return highest.path if highest else None
            case ResumeRule.LATEST:
                avoid = launch.environment.get("CHAINWATCH_AVOID", "").split(":")
                best = disk.newest_intact(avoid)
                return best.path if best else None
            case ResumeRule.RESUME_FILE:
                if self.training.read_file is None:
                    return disk.resume_file
                return self.training.read_file(launch.environment.get("CHAINWATCH_RESUME_FILE", "")) or None
            case ResumeRule.POINTER:
                return disk.pointer
            case ResumeRule.GIVEN:
                return launch.environment.get(RESUME_VARIABLE) or next(iter(launch.args), None)

    def _load(self, path: str | None) -> None:
        if path is not None:
            state = self.training.disk.states.get(path)
            if state is None:
                self.output(f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
                self._end(1)
                return
            if state.status is not Status.INTACT:
                self._crash(CORRUPT_LINE)
                return
            self._at_step = state.step
        self._go_on()

    def _go_on(self) -> None:
        """Step until the next thing happens: a fault, a save, the end."""
        recipe = self.training.recipe
        self._since = self.process.clock.time
        save = (self._at_step // recipe.save_every + 1) * recipe.save_every
        goal = min(save, recipe.final_step)
        ahead = [f for f in recipe.faults if self._at_step < f.step <= goal]
        fault = min(ahead, key=lambda f: f.step, default=None)
        if fault is not None:
            self._plan(fault.step, lambda: self._meet(fault))
        else:
            self._plan(goal, self._reach_goal)
        sick = [n for n in self.process.launch.nodes if self.training.is_faulty(n)]
        if sick and self._next is not None:
            self._next.cancel()
            self._next = self.process.after(60.0, lambda: self._crash(f"CUDA error: GPU has fallen off the bus {sick}"))

    def _plan(self, step: int, event: Callable[[], None]) -> None:
        seconds = (step - self._at_step) / self.training.recipe.steps_per_second

        def arrive() -> None:
            self._at_step, self._since = step, None
            self.training.disk.reached = max(self.training.disk.reached, step)
            event()

        self._next = self.process.after(seconds, arrive)

    def _meet(self, fault: TrainingFault) -> None:
        if not self.training.spend(fault):
            (self._reach_goal if self._is_goal(fault.step) else self._go_on)()
        elif fault.trouble is Trouble.HANG:
            self.output(f"step {fault.step}")  # and nothing more
        else:
            self._crash(_LAST_WORDS[fault.trouble])

    def _is_goal(self, step: int) -> bool:
        recipe = self.training.recipe
        return step == recipe.final_step or step % recipe.save_every == 0

    def _reach_goal(self) -> None:
        self.output(f"step {self._at_step}")
        self._begin_save()

    def _begin_save(self) -> None:
        self._save_began = self.process.clock.time
        self._save = self.training.disk.begin_save(self._at_step, self)
        self._next = self.process.after(self.training.recipe.save_seconds, self._saved)

    def _saved(self) -> None:
        recipe, disk = self.training.recipe, self.training.disk
        assert self._save is not None
        disk.finish_save(self._save)
        self.output(f"saved {self._save.path}")
        self._save = None
        if recipe.keep is not None:
            disk.drop_old(recipe.keep)
        if self._at_step >= recipe.final_step:
            self.output(f"{MARK} at step {self._at_step}")
            disk.finished_at = disk.finished_at or self.process.clock.time
            self._end(1 if recipe.teardown_crash else 0)
        elif self._leaving is not None:
            self._end(self._leaving)
        else:
            self._go_on()

    def _crash(self, line: str) -> None:
        self.output(line)
        self._end(1)

    def _end(self, code: int, signal: int = 0) -> None:
        self._gone()
        self.process.step("0", 0 if signal else code, signal)
        self.process.exit(0 if self.training.recipe.hides_exit else code)

    def _gone(self) -> None:
        self._stand_still()
        if self._next is not None:
            self._next.cancel()
        if self._save is not None:
            passed = self.process.clock.time - self._save_began
            self.training.disk.cut_save(self._save, passed / max(1e-9, self.training.recipe.save_seconds))
            self._save = None

    def _stand_still(self) -> None:
        self._at_step, self._since = self.step, None
        self.training.disk.reached = max(self.training.disk.reached, self._at_step)
        if self._next is not None:
            self._next.cancel()
