"""What a framework layout answers, and what it is given to answer with.

A layout is a class in this folder that knows how one framework lays out its checkpoints in a run directory. It answers
four questions; the rest (walking directories, caching, neighbours, time, status, the sentence for people) is done once,
outside:

- ``owns(folder)``: is this directory one checkpoint of mine, complete or not? By names alone: nothing is opened but,
  at most, a small JSON.
- ``inside(run)``: which checkpoints lie directly in this directory that are no directories that I own: single files,
  prefixes, directories with a temporary name.
- ``pointer(run)``: what does my pointer file (`latest`, tracker …) name?
- ``judge(candidate, look)``: which files must be there, and what is wrong with them? Everything is said through `Look`.

Registered, with the substrings of names that make it worth loading, in `formats/__init__.py`. Valid for Python 3.8.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.files import Finding, examine
from chainwatch.checkpoints.files.base import Broken, Fault, Reader, fault_of_error, grouped, human, identity, printable
from chainwatch.checkpoints.patterns import number_runs
from chainwatch.model.checkpoint import Problem
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

    from chainwatch.checkpoints.cache import Kept

MAX_ENTRIES = 200_000
"""Entries of one directory that are looked at; the largest real ones (a file per rank and layer) hold some 100,000."""

_WORDS = ("step", "iter", "iteration", "checkpoint", "ckpt", "batch", "ba", "update")


def step_of(name: str) -> Optional[int]:
    """The training step in the name of a checkpoint (`epoch=1-step=20.ckpt`, `iter_0000300`, `400`), or None."""
    lower = name.lower()
    for begin, end in reversed(number_runs(lower)):
        before = lower[:begin].rstrip("=_.-")
        decimals = lower[end : end + 1] == "." and lower[end + 1 : end + 2].isdigit()
        if end - begin <= 18 and not decimals and (before.endswith(_WORDS) or before.rstrip("s").endswith(_WORDS)):
            return int(lower[begin:end])
    stem = name
    while True:
        stem, ending = os.path.splitext(stem)
        if not ending or ending[1:2].isdigit():
            stem += ending
            break
    runs = [(begin, end) for begin, end in number_runs(stem) if end - begin <= 18]
    whole = [run for run in runs if not _in_decimal(stem, *run)]
    begin, end = (whole or runs or [(0, 0)])[-1]
    return int(stem[begin:end]) if end else None


def _in_decimal(text: str, begin: int, end: int) -> bool:
    """A part of a number such as the loss in `weights-003-2.24`."""
    after = text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
    before = text[begin - 1 : begin] == "." and text[begin - 2 : begin - 1].isdigit() if begin > 1 else False
    return after or before


class Folder:
    """One directory, listed once, with a bounded number of entries; never raises."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.files: List[str] = []
        """Names of everything that is no directory (links to nothing and FIFOs too), sorted."""
        self.dirs: List[str] = []
        """Names of directories, and of links to directories, sorted."""
        self.links: List[str] = []
        """Those names of either that are symbolic links."""
        self.error: Optional[Fault] = None
        self.overfull = False
        self._stats: Dict[str, Optional[os.stat_result]] = {}
        self._subs: Dict[str, Folder] = {}
        try:
            with os.scandir(path) as entries:
                for count, entry in enumerate(entries):
                    if count >= MAX_ENTRIES:
                        self.overfull = True
                        break
                    try:
                        if entry.is_symlink():
                            self.links.append(entry.name)
                        (self.dirs if entry.is_dir() else self.files).append(entry.name)
                    except OSError:
                        self.files.append(entry.name)
        except OSError as error:
            self.error = fault_of_error(error, path)
        self.files.sort()
        self.dirs.sort()
        self._set = frozenset(self.files) | frozenset(self.dirs)

    def __contains__(self, name: str) -> bool:
        return name in self._set

    def stat(self, name: str) -> Optional[os.stat_result]:
        """Of the file that the (relative) name leads to, through links; None where there is none."""
        if name not in self._stats:
            try:
                self._stats[name] = os.stat(os.path.join(self.path, name))
            except (OSError, ValueError):
                self._stats[name] = None
        return self._stats[name]

    def sub(self, name: str) -> Folder:
        """The directory of that (relative) name; an unreadable or missing one is empty and has an `error`."""
        if name not in self._subs:
            self._subs[name] = Folder(os.path.join(self.path, name))
        return self._subs[name]

    def text(self, name: str, limit: int = 65536) -> Optional[str]:
        """A small text file, None where it is not there, is no regular file, or is longer than `limit` bytes."""
        raw = self.head(name, limit + 1)
        return None if raw is None or len(raw) > limit else raw.decode("utf-8", "replace")

    def head(self, name: str, length: int) -> Optional[bytes]:
        """The first bytes of a regular file, None where it cannot be read."""
        from chainwatch.checkpoints.files.base import Broken, Reader

        try:
            with Reader(os.path.join(self.path, name)) as reader:
                return reader.read(0, min(length, reader.size))
        except (Broken, OSError, ValueError):
            return None


class Pointer(NamedTuple):
    """What a framework's own pointer says."""

    file: str
    """Name of the pointer file in the run directory."""
    target: Optional[str]
    """Name (relative to the run directory) of the checkpoint that it names; None where it names nothing usable."""
    said: str
    """Its text, as read, for people."""


class Candidate:
    """Something that is, or was meant to be, a checkpoint."""

    __slots__ = ("folder", "layout", "name", "run", "step")

    def __init__(
        self, layout: Layout, run: Folder, name: str, step: Optional[int], folder: Optional[Folder] = None
    ) -> None:
        self.layout = layout
        self.run = run
        """The directory in which it lies; its `name` is relative to that."""
        self.name = name
        self.step = step
        self.folder = folder
        """Its own directory; None for a single file, a prefix, or where nothing is there."""

    @property
    def path(self) -> str:
        return os.path.join(self.run.path, self.name)

    @property
    def root(self) -> Folder:
        """The folder to which file names in problems are relative."""
        return self.run if self.folder is None else self.folder


class Layout:
    """One framework's way to lay out checkpoints. Stateless; one instance each."""

    name = ""
    """Name of the format, as in `--format` and in reports."""

    def owns(self, folder: Folder) -> bool:
        """True where this directory is one checkpoint of this layout, whole or not."""
        return False

    def named(self, name: str) -> bool:
        """True where a directory of that name is surely meant as a checkpoint of this layout, even when empty."""
        return False

    def inside(self, run: Folder) -> Iterable[Candidate]:
        """Checkpoints directly in `run` that are not directories which `owns` recognises."""
        return ()

    def pointer(self, run: Folder) -> Optional[Pointer]:
        """The pointer file of this layout in the run directory, if there is one."""
        return None

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        """A checkpoint directory (`folder` None: only a pointer names it); override where the step is told inside."""
        return Candidate(self, run, name, step_of(name), folder)

    def judge(self, candidate: Candidate, look: Look) -> None:
        """Say everything that is wrong with it to `look`; may set `look.step`."""
        raise NotImplementedError

    def format_of(self, candidate: Candidate) -> str:
        """The format name to report; override where one layout class serves several."""
        return self.name


class Look:
    """What a layout looks with, and where it says what it saw, while it judges one candidate."""

    def __init__(
        self,
        candidate: Candidate,
        neighbours: Sequence[Candidate] = (),
        pointer: Optional[Pointer] = None,
        deep: bool = False,
        examine_file: Callable[..., Finding] = examine,
        progress: Optional[Callable[[int], None]] = None,
    ) -> None:
        self.candidate = candidate
        self.neighbours = neighbours
        """Siblings of the same layout, nearest step first."""
        self.run_pointer = pointer
        """What the pointer of the run names, if there is one."""
        self.deep = deep
        self.problems: List[Problem] = []
        self.warnings: List[str] = []
        self.step = candidate.step
        self.format = ""
        """The format's name where looking into it told; else `format_of` is asked."""
        self.detail = ""
        """For the sentence about an intact checkpoint: what was cross-checked ("world size 8, optimizer step 300")."""
        self.checksummed = True
        """False as soon as one file with tensor data has no checksum: flipped bits there cannot be seen."""
        self.stats: Dict[str, os.stat_result] = {}
        """Of every file that was looked at, by its name relative to the checkpoint."""
        self.checked = 0
        self._examine = examine_file
        self._progress = progress

    # -- looking ------------------------------------------------------------------------------------------------------

    def file(self, name: str, kind: Optional[str] = None, expected: str = "") -> Finding:
        """Examine one file of the checkpoint (name relative to it) and take over its faults as problems.

        A file that is not there is a `missing` problem: call it for mandatory files, or after asking `has`.
        """
        root = self.candidate.root
        info = root.stat(name)
        if info is not None:
            self.stats[name] = info
        finding = self._examine(os.path.join(root.path, name), deep=self.deep, kind=kind, progress=self._progress)
        self.checked += 1
        for fault in finding.faults:
            self._fault(name, fault, expected, info)
        for warning in finding.warnings:
            self.warn(f"{name}: {warning}")
        if not finding.checksummed and finding.kind not in ("json", "text", "pickle", "dcp_metadata"):
            self.checksummed = False
        return finding

    def opened(self, name: str) -> Optional[Reader]:
        """A reader of one file, for layouts that must look into several files at once; None, and its fault said, where
        it cannot be opened. Close it."""
        root = self.candidate.root
        info = root.stat(name)
        if info is not None:
            self.stats[name] = info
        self.checked += 1
        path = os.path.join(root.path, name)
        try:
            return Reader(path, self._progress)
        except Broken as broken:
            self.fault(name, broken.fault)
        except (OSError, ValueError) as error:
            self.fault(name, fault_of_error(error if isinstance(error, OSError) else OSError(str(error)), path))
        return None

    def once(self, kind: str, names: Iterable[str], work: Callable[[], Any]) -> Any:
        """What `work` answers, which looks into the files of these names and into nothing else. Where a cache is handed
        in and none of them has changed since, the answer from then, with the warnings from then.

        Only what was found without a fault is kept: that is what is asked for again and again.
        """
        keep: Optional[Kept] = getattr(self._examine, "kept", None)
        if keep is None:
            return work()
        root = self.candidate.root
        infos = {name: root.stat(name) for name in names}
        key = (kind, self.deep, tuple((name, info and identity(info)) for name, info in infos.items()))
        known = keep.get(key)
        if known is not None:
            answer, warnings, checked = known
            self.stats.update((name, info) for name, info in infos.items() if info is not None)
        else:
            problems, before, count = len(self.problems), len(self.warnings), self.checked
            answer = work()
            warnings, checked = tuple(self.warnings[before:]), self.checked - count
            if len(self.problems) == problems:
                keep.put(key, (answer, warnings, checked), [info for info in infos.values() if info is not None])
            return answer
        for warning in warnings:
            self.warn(warning)
        self.checked += checked
        return answer

    def fault(self, name: str, fault: Fault, expected: str = "") -> None:
        """What is wrong with one file, as a problem of the checkpoint."""
        self._fault(name, fault, expected, self.candidate.root.stat(name))

    def files(self, names: Iterable[str], kind: Optional[str] = None) -> Dict[str, Finding]:
        """`file` for many names."""
        return {name: self.file(name, kind) for name in names}

    def optional(self, name: str, kind: Optional[str] = None) -> Finding:
        """Examine a file that a resume does not need: what is wrong with it is a warning."""
        root = self.candidate.root
        finding = self._examine(os.path.join(root.path, name), deep=False, kind=kind)
        for fault in finding.faults:
            self.warn(f"{printable(name)}: {fault.found} (a resume does not need it)")
        return finding

    def has(self, name: str) -> bool:
        """True where something of that name is there: a file, a directory, or a link to nothing."""
        root = self.candidate.root
        return name in root or ("/" in name and os.path.lexists(os.path.join(root.path, name)))

    def neighbour_files(self, name: str) -> Iterator[Tuple[Candidate, os.stat_result]]:
        """The file of that name in each neighbour that has it (for a file or a prefix: what the neighbour's own name
        makes of it)."""
        own = self.candidate.name
        if self.candidate.folder is None and not name.startswith(own):
            return
        for other in self.neighbours:
            theirs = name if self.candidate.folder is not None else other.name + name[len(own) :]
            info = other.root.stat(theirs)
            if info is not None:
                yield other, info

    # -- saying -------------------------------------------------------------------------------------------------------

    def missing(self, name: str, expected: str = "") -> None:
        """A mandatory file that is not there: the checkpoint is incomplete."""
        self.problem(name, "missing", expected or self._as_in(name) or "the file", "not there")

    def uncommitted(self, name: str, expected: str, found: str) -> None:
        """The framework never marked this save as finished: incomplete, however good its files are."""
        self.problem(name, "uncommitted", expected, found)

    def problem(self, name: str, code: str, expected: str, found: str) -> None:
        self.problems.append(Problem(printable(name), code, expected, found))

    def warn(self, text: str) -> None:
        """Something to say that does not by itself make the checkpoint bad."""
        if text not in self.warnings:
            self.warnings.append(text)

    def _fault(self, name: str, fault: Fault, expected: str, info: Optional[os.stat_result]) -> None:
        wanted, found = fault.expected, fault.found
        if fault.code in ("truncated", "empty", "structure", "missing"):
            if info is not None and "bytes" not in found:
                found += f", {grouped(info.st_size)} bytes"
            wanted = self._as_in(name) or expected or wanted
        self.problem(name, fault.code, wanted, found)

    def _as_in(self, name: str) -> str:
        for other, info in self.neighbour_files(name):
            return f"about {human(info.st_size)}, as in {printable(other.name)}"
        return ""

    @property
    def identity(self) -> Tuple[Tuple[str, Tuple[int, int, int, int, int]], ...]:
        """Of all files that were looked at; equal as long as none has changed."""
        return tuple((name, identity(info)) for name, info in sorted(self.stats.items()))
