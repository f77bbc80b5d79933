"""Which checkpoints there are under a run directory: a bounded walk that never opens a large file."""

from __future__ import annotations

import os
from errno import ENOTDIR

from chainwatch.checkpoints.files import HEAD, kind_of
from chainwatch.checkpoints.formats import layouts_for, single_files
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Pointer
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Set, Tuple

MAX_DEPTH = 5
"""Directories below the run directory that are searched (`lightning_logs/version_0/checkpoints/x.ckpt` is 3)."""
MAX_FOLDERS = 5_000

SKIPPED = frozenset(("__pycache__", "node_modules", "wandb", "tensorboard", "tb_logs", "site-packages", "mlruns"))
"""Directories that hold no checkpoints and may hold very many files."""


_NO_STRUCTURE = ("raw", "text", "json")


class Inventory(NamedTuple):
    """What was found."""

    candidates: Tuple[Candidate, ...]
    pointers: Dict[str, Tuple[Layout, Pointer]]
    """By the directory in which the pointer file lies."""
    truncated: bool
    """True where the walk stopped at one of its limits."""


class _Walk:
    def __init__(self, wanted: Optional[str], only: Optional[Layout] = None) -> None:
        self.wanted = wanted
        self.only = only
        """A layout that is not in the table: the user's own rule."""
        self.candidates: List[Candidate] = []
        self.pointers: Dict[str, Tuple[Layout, Pointer]] = {}
        self.visited: Set[Tuple[int, int]] = set()
        self.folders = 0
        self.truncated = False

    def layouts(self, folder: Folder) -> Iterable[Layout]:
        return [self.only] if self.only is not None else layouts_for(folder, self.wanted)

    def owner(self, folder: Folder) -> Optional[Layout]:
        asked = []
        for layout in self.layouts(folder):  # those after the owner are not even loaded
            if layout.owns(folder):
                return layout
            asked.append(layout)
        for layout in asked:
            if layout.named(folder.name):
                return layout
        return None

    def survey(self, folder: Folder, depth: int) -> None:
        """Everything in and below one directory that is no checkpoint itself."""
        self.folders += 1
        self.truncated = self.truncated or folder.overfull
        taken: Set[str] = set()
        for layout in self.layouts(folder):
            for candidate in layout.inside(folder):
                if candidate.name not in taken:
                    taken.add(candidate.name)
                    self.candidates.append(candidate)
            pointer = layout.pointer(folder)
            if pointer is not None and folder.path not in self.pointers:
                self.pointers[folder.path] = (layout, pointer)
        below: List[Folder] = []
        links = frozenset(folder.links)
        for name in sorted(folder.dirs, key=lambda each: each in links):
            if name in taken or name in SKIPPED or not self._first_visit(folder, name):
                continue
            if self.folders + len(below) > MAX_FOLDERS:
                self.truncated = True
                break
            sub = folder.sub(name)
            owner = self.owner(sub)
            if owner is not None:
                self.candidates.append(owner.candidate(folder, name, sub))
                taken.add(name)
            elif not name.startswith("."):
                below.append(sub)
        self._named_by_pointer(folder, taken)
        if depth < MAX_DEPTH:
            for sub in below:
                self.survey(sub, depth + 1)

    def _named_by_pointer(self, folder: Folder, taken: Set[str]) -> None:
        """A pointer may name a checkpoint that is not there: that is one, too, and it is incomplete."""
        if folder.path in self.pointers:
            layout, pointer = self.pointers[folder.path]
            target = pointer.target
            if target is not None and target not in taken and target not in folder:
                self.candidates.append(layout.candidate(folder, target, None))

    def _first_visit(self, folder: Folder, name: str) -> bool:
        info = folder.stat(name)
        if info is None or (info.st_dev, info.st_ino) in self.visited:
            return False
        self.visited.add((info.st_dev, info.st_ino))
        return True


def take_inventory(path: str, wanted: Optional[str] = None, only: Optional[Layout] = None) -> Inventory:
    """All checkpoints at or under `path` (absolute): of itself if it is one, else of everything below.

    `wanted` restricts it to one format, `only` to a layout that is not in the table (the user's own rule).

    Raises:
        OSError: `path` is not there or cannot be listed, or is a file that is surely no checkpoint.
    """
    walk = _Walk(wanted, only)
    if os.path.isdir(path):
        folder = Folder(path)
        layout = walk.owner(folder)
        if layout is None or not layout.owns(folder):
            walk.survey(folder, 0)
            if walk.candidates or layout is None:
                if folder.error is not None and not walk.candidates:
                    os.listdir(path)  # raises what the listing met
                return _done(walk)
        return _one(walk, layout.candidate(Folder(os.path.dirname(path)), folder.name, folder))
    return _file(walk, path)


def _file(walk: _Walk, path: str) -> Inventory:
    """A checkpoint that is a file, a prefix of files, or that only a pointer or its neighbours know of."""
    parent = Folder(os.path.dirname(path))
    name = os.path.basename(path)
    walk.survey(parent, MAX_DEPTH)
    for candidate in walk.candidates:
        if candidate.name == name:
            return _one(walk, candidate)
    for layout in walk.layouts(parent):
        if layout.named(name) and not parent.error:
            return _one(walk, layout.candidate(parent, name, None))
    if name in parent:
        if walk.only is None and _says_nothing(name, parent.head(name, HEAD)):
            raise NotADirectoryError(ENOTDIR, "it is a file, and no checkpoint of a format that is known", path)
        return _one(walk, (walk.only or single_files()).candidate(parent, name, None))
    os.stat(path)
    return _done(walk)


def _says_nothing(name: str, head: Optional[bytes]) -> bool:
    """Neither its name nor its first bytes tell what a file is: judged by its size alone, anything would be intact."""
    return bool(head) and kind_of(name, head or b"") in _NO_STRUCTURE


def _one(walk: _Walk, candidate: Candidate) -> Inventory:
    """That candidate first; its siblings (for comparison) after it are left to `siblings`."""
    return Inventory((candidate,), walk.pointers or _pointers(candidate, walk.wanted), walk.truncated)


def _pointers(candidate: Candidate, wanted: Optional[str]) -> Dict[str, Tuple[Layout, Pointer]]:
    pointer = candidate.layout.pointer(candidate.run)
    return {} if pointer is None else {candidate.run.path: (candidate.layout, pointer)}


def _done(walk: _Walk) -> Inventory:
    return Inventory(tuple(walk.candidates), walk.pointers, walk.truncated)


def siblings(candidate: Candidate) -> List[Candidate]:
    """The other checkpoints of the same layout in the same directory, nearest step first.

    Only those that lie directly beside it are asked for, and only their names are listed.
    """
    layout, run = candidate.layout, candidate.run
    found = [other for other in layout.inside(run) if other.name != candidate.name]
    if candidate.folder is not None:
        for name in run.dirs:
            if name != candidate.name and (layout.named(name) or _like(name, candidate.name)):
                sub = run.sub(name)
                if layout.owns(sub):
                    found.append(layout.candidate(run, name, sub))
    step = candidate.step or 0
    found.sort(key=lambda other: (abs((other.step or 0) - step), other.name))
    return found


def _like(name: str, other: str) -> bool:
    """Names that differ in digits alone."""
    digits = str.maketrans("", "", "0123456789")
    return name.translate(digits) == other.translate(digits)
