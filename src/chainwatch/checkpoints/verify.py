"""The verdict on checkpoints: what a layout saw becomes one of four answers, with its reason.

The four answers (`Status`), from what was seen:

- something mandatory is not there, or the framework never committed the save: *incomplete*;
- everything is there and something is wrong with it: *damaged*;
- either of them, while files are still being written: *in progress*. In progress and incomplete have the same bytes;
  only the newest change (younger than `settle` seconds) or an open writer tells them apart;
- nothing is wrong: *intact*.
"""

from __future__ import annotations

import os
import time

from chainwatch.checkpoints.files import Finding, examine
from chainwatch.checkpoints.files.base import human
from chainwatch.checkpoints.formats.base import Candidate, Look, Pointer
from chainwatch.checkpoints.inventory import Inventory, siblings, take_inventory
from chainwatch.model.checkpoint import Checkpoint, Problem, RunReport, Status
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Callable, Dict, FrozenSet, List, Optional, Tuple

    from chainwatch.checkpoints.formats.custom import Rule


SETTLE = 300.0
"""Seconds without a change after which an unfinished checkpoint counts as given up. Long enough for a rank that gathers
its state before it writes; a checkpoint that is called in progress too long costs nothing, an older one is taken."""

INCOMPLETE_CODES = frozenset(("missing", "uncommitted"))
PERMANENT_CODES = frozenset(
    ("unreadable", "dangling", "not_regular", "checksum", "step", "world_size", "pointer", "mixed")
)
"""Faults that no further writing would mend: fresh or not, such a checkpoint is damaged."""


class Options(NamedTuple):
    """How to look."""

    deep: bool = False
    format: Optional[str] = None
    now: Optional[float] = None
    settle: float = SETTLE
    examine: Callable[..., Finding] = examine
    progress: Optional[Callable[[int], None]] = None
    custom: Optional[Rule] = None
    avoid: FrozenSet[str] = frozenset()
    """Absolute paths that `search` must not pick (a program died of them, though their bytes look right)."""


def verify(
    path: str,
    deep: bool = False,
    format: Optional[str] = None,
    now: Optional[float] = None,
    settle: float = SETTLE,
    examine_file: Optional[Callable[..., Finding]] = None,
    progress: Optional[Callable[[int], None]] = None,
    custom: Optional[Rule] = None,
) -> RunReport:
    """Judge the checkpoint at `path`, or every checkpoint under that run directory.

    Args:
        path: a checkpoint (directory, file, or prefix of files) or a run directory.
        deep: read all bytes and verify every checksum that the format has; quick reads only metadata.
        format: one of `FORMATS`; None finds it from what lies there.
        now: epoch seconds, the present where None.
        settle: seconds without a change after which an unfinished checkpoint is no longer in progress.
        examine_file: judges one file; a cache (`checkpoints.cache`) takes this place.
        progress: called with the number of bytes that a deep check has read.
        custom: the user's own rule, for `format="custom"`.

    Raises:
        OSError: `path` is not there or cannot be read.
        ValueError: no such format.
    """
    options = _options(deep, format, now, settle, examine_file, progress, custom)
    where = os.path.abspath(path)
    inventory = _inventory(where, options)
    judged = [judge(candidate, inventory, options) for candidate in inventory.candidates]
    judged.sort(key=_age)
    intact = [checkpoint for checkpoint in judged if checkpoint.intact]
    formats = {checkpoint.format for checkpoint in judged}
    return RunReport(
        path=where,
        format=format or (formats.pop() if len(formats) == 1 else None),
        checkpoints=tuple(judged),
        newest_intact=intact[-1] if intact else None,
        pointer=_pointed(inventory),
        unknown=() if judged else unknown_at(where, options),
    )


def newest_intact(
    run_dir: str,
    deep: bool = False,
    format: Optional[str] = None,
    now: Optional[float] = None,
    settle: float = SETTLE,
    examine_file: Optional[Callable[..., Finding]] = None,
    custom: Optional[Rule] = None,
) -> Optional[Checkpoint]:
    """The checkpoint to resume from: the intact one with the highest step, or None.

    Looks at the newest first and stops at the first intact one. Arguments and errors as for `verify`.
    """
    return search(run_dir, _options(deep, format, now, settle, examine_file, None, custom))[0]


def search(run_dir: str, options: Options) -> Tuple[Optional[Checkpoint], List[Checkpoint]]:
    """The newest intact checkpoint, and those that were judged on the way and are not intact."""
    inventory = _inventory(os.path.abspath(run_dir), options)
    candidates = [each for each in inventory.candidates if each.path not in options.avoid]
    passed: List[Checkpoint] = []
    unnumbered = [judge(each, inventory, options) for each in candidates if each.step is None]
    best = max((each for each in unnumbered if each.intact), key=_age, default=None)
    passed.extend(each for each in unnumbered if not each.intact)
    numbered = sorted((each for each in candidates if each.step is not None), key=_newest_first)
    for candidate in numbered:
        if best is not None and best.step is not None and best.step > (candidate.step or 0):
            break
        checkpoint = judge(candidate, inventory, options)
        if checkpoint.intact:
            return (checkpoint if best is None or _age(best) < _age(checkpoint) else best), passed
        passed.append(checkpoint)
    return best, passed


def unknown_at(path: str, options: Options) -> Tuple[str, ...]:
    """Where nothing was recognised: what looks like a save all the same, unless the format or the rule was named."""
    if options.format is not None or options.custom is not None:
        return ()
    from chainwatch.checkpoints.unknown import unknown_saves

    return unknown_saves(path)


def check_format(format: Optional[str]) -> None:
    """Raises ValueError, with the names that there are, for a format that nobody knows."""
    from chainwatch.checkpoints.formats import FORMATS

    if format is not None and format not in FORMATS:
        raise ValueError(f"no checkpoint format is called {format!r}; there are {', '.join((*FORMATS, 'custom'))}")


def judge(candidate: Candidate, inventory: Inventory, options: Options) -> Checkpoint:
    """The verdict on one candidate."""
    pointer = inventory.pointers.get(candidate.run.path)
    look = Look(
        candidate,
        siblings(candidate),
        None if pointer is None or pointer[0] is not candidate.layout else pointer[1],
        options.deep,
        options.examine,
        options.progress,
    )
    if candidate.folder is not None and candidate.folder.error is not None:
        fault = candidate.folder.error
        look.problem(candidate.name, fault.code, fault.expected, fault.found)
    elif candidate.folder is None and candidate.run.stat(candidate.name) is None and not _is_there(candidate):
        look.missing(candidate.name, _who_names(candidate, look.run_pointer))
    else:
        candidate.layout.judge(candidate, look)
        if not look.problems and len(look.neighbours) > 1:
            from chainwatch.checkpoints.witness import differences

            for difference in differences(look):
                look.warn(difference)
    modified = _modified(candidate, look)
    status, settles = _status(look, candidate, modified, options)
    return Checkpoint(
        path=candidate.path,
        step=look.step,
        format=look.format or candidate.layout.format_of(candidate),
        status=status,
        reason=_reason(status, look, options),
        problems=tuple(look.problems),
        warnings=tuple(look.warnings),
        unverifiable=not look.checksummed,
        modified=modified,
        size=sum(info.st_size for info in look.stats.values()),
        settles=settles,
    )


def _options(
    deep: bool,
    format: Optional[str],
    now: Optional[float],
    settle: float,
    examine_file: Optional[Callable[..., Finding]],
    progress: Optional[Callable[[int], None]],
    custom: Optional[Rule] = None,
) -> Options:
    if format == "custom":
        if custom is None:
            raise ValueError("the format custom needs a rule: which files a checkpoint must have")
    elif custom is not None:
        raise ValueError(f"a custom rule is for the format custom, not for {format or 'one that is to be found'}")
    else:
        check_format(format)
    return Options(deep, format, now, settle, examine if examine_file is None else examine_file, progress, custom)


def _inventory(path: str, options: Options) -> Inventory:
    if options.custom is None:
        return take_inventory(path, options.format)
    from chainwatch.checkpoints.formats.custom import Custom

    return take_inventory(path, None, Custom(options.custom))


def _is_there(candidate: Candidate) -> bool:
    """True for links to nothing, for prefixes of files, and for names with a rank left open (`…-rank{rank}.pt`)."""
    name = candidate.name
    start = name.partition("{rank}")[0]
    return name in candidate.run or any(each.startswith(start) for each in candidate.run.files)


def _who_names(candidate: Candidate, pointer: Optional[Pointer]) -> str:
    if pointer is not None and pointer.target == candidate.name:
        return f"the checkpoint that the pointer {pointer.file} names"
    return "the checkpoint"


def _modified(candidate: Candidate, look: Look) -> float:
    """The newest change: of its files, its directory, and what lies in it under other names."""
    newest = max((info.st_mtime for info in look.stats.values()), default=0.0)
    folder = candidate.folder
    if folder is not None:
        own = candidate.run.stat(candidate.name)
        newest = max(newest, own.st_mtime if own is not None else 0.0)
        if look.problems:
            for name in (*folder.files[:1000], *folder.dirs[:1000]):
                info = folder.stat(name)
                newest = max(newest, info.st_mtime if info is not None else 0.0)
    return newest


def _status(look: Look, candidate: Candidate, modified: float, options: Options) -> Tuple[Status, float]:
    """The answer, and until when one that is in progress is given time (0: as long as its writer lives)."""
    codes = {problem.code for problem in look.problems}
    if not codes:
        return Status.INTACT, 0.0
    if not codes & PERMANENT_CODES:
        now = time.time() if options.now is None else options.now
        if now - modified < options.settle:
            return Status.IN_PROGRESS, modified + options.settle
        from chainwatch.checkpoints.writers import has_writer

        if candidate.run.stat(candidate.name) is not None and has_writer(candidate.path):
            return Status.IN_PROGRESS, 0.0
    return (Status.INCOMPLETE if codes & INCOMPLETE_CODES else Status.DAMAGED), 0.0


def _reason(status: Status, look: Look, options: Options) -> str:
    if not look.problems:
        size = human(sum(info.st_size for info in look.stats.values()))
        what = "every byte and checksum" if options.deep else "structure and sizes"
        files = "1 file" if look.checked == 1 else f"{look.checked} files"
        detail = f"; {look.detail}" if look.detail else ""
        return f"{files}, {size}: {what} as they should be{detail}"
    first = _decisive(look.problems, status)
    more = len(look.problems) - 1
    sentence = first.sentence() + (f" (and {more} more)" if more else "")
    return f"still being written: {sentence}" if status is Status.IN_PROGRESS else sentence


def _decisive(problems: List[Problem], status: Status) -> Problem:
    """The problem that made the status, else the first."""
    for problem in problems:
        if (problem.code in INCOMPLETE_CODES) == (status is Status.INCOMPLETE):
            return problem
    return problems[0]


def _age(checkpoint: Checkpoint) -> Tuple[int, float, str]:
    return (-1 if checkpoint.step is None else checkpoint.step, checkpoint.modified, checkpoint.path)


def _newest_first(candidate: Candidate) -> Tuple[int, float, str]:
    info = candidate.run.stat(candidate.name)
    return (-(candidate.step or 0), -(info.st_mtime if info is not None else 0.0), candidate.name)


def _pointed(inventory: Inventory) -> Optional[str]:
    """The checkpoint that a naive resume would pick: what the pointer beside the newest candidates names."""
    named: Dict[str, Optional[str]] = {
        run: pointer.target and os.path.join(run, pointer.target) for run, (_, pointer) in inventory.pointers.items()
    }
    for candidate in sorted(inventory.candidates, key=_newest_first):
        if named.get(candidate.run.path):
            return named[candidate.run.path]
    return None
