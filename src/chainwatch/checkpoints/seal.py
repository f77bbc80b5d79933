"""The seal: digests of a checkpoint that was found intact, kept in the state directory, so that later rot can be seen.

Many formats carry no checksum (safetensors, legacy torch, HDF5, msgpack, zarr): a bit that flips on disk afterwards, a
shard of another step that somebody copied in, are invisible without digests of our own. Nothing is written beside the
user's data.

The digest is CRC-32 per segment: it finds every burst of up to 32 bits and misses other rot once in four thousand
million times; it runs at the speed of reading with isal and is in every Python's zlib, so that a seal made on one
machine can be verified on any other. It is no protection against forgery, which no digest kept beside a cluster is.

A file that was written anew is not rot. Which of the two it is, its segments tell: rot, a lost block or a hole changes
few of them, a later save of the same step changes most.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files.base import Broken, Reader, fault_of_error, grouped, human, printable
from chainwatch.checkpoints.files.checksums import crc32
from chainwatch.checkpoints.polite import Throttle, idle_io
from chainwatch.model.checkpoint import Checkpoint, Problem, RunReport, Status

VERSION = 1
MAX_SEGMENTS = 256
MIN_SEGMENT = 512
MAX_FILES = 200_000
TEXTS = (".json", ".yaml", ".yml", ".txt", ".md", ".py", ".toml")
"""People edit these inside checkpoints; a change is said, and is no damage."""


class SealError(Exception):
    """A seal could not be made: the checkpoint changed meanwhile, or cannot be read."""


class SealedFile(NamedTuple):
    """What one file was when it was sealed."""

    name: str
    """Relative to the checkpoint (for a file or prefix: to its directory)."""
    size: int
    mtime_ns: int
    segment: int
    """Bytes of a segment; the last one is shorter."""
    digests: Tuple[int, ...]


class Seal(NamedTuple):
    """Digests of one checkpoint."""

    path: str
    step: Optional[int]
    made: float
    """Epoch seconds."""
    files: Tuple[SealedFile, ...]


class SealVerdict(NamedTuple):
    """What a seal says of the checkpoint as it is now."""

    problems: Tuple[Problem, ...] = ()
    warnings: Tuple[str, ...] = ()
    void: bool = False
    """True where the checkpoint was written anew since: the seal says nothing, and a new one is due."""


def make_seal(
    checkpoint: Checkpoint,
    state_dir: str,
    rate: Optional[int] = None,
    now: Optional[float] = None,
    progress: Optional[Callable[[int], None]] = None,
) -> Seal:
    """Read an intact checkpoint once, with idle I/O priority, and keep its digests below `state_dir`.

    Args:
        rate: bytes per second at most; None: as fast as an idle priority allows.
        progress: called with the number of bytes read.

    Raises:
        SealError: it is not intact, changed while it was read, or cannot be read.
        OSError: the seal cannot be written.
    """
    if not checkpoint.intact:
        raise SealError(f"{checkpoint.path} is {checkpoint.status}, and only an intact checkpoint is sealed")
    throttle = Throttle(rate)

    def read(count: int) -> None:
        throttle(count)
        if progress is not None:
            progress(count)

    root, names = files_of(checkpoint.path)
    sealed = []
    with idle_io():
        for name in names:
            sealed.append(_digest(root, name, read))
    seal = Seal(checkpoint.path, checkpoint.step, time.time() if now is None else now, tuple(sealed))
    _store(seal, state_dir)
    return seal


def load_seal(path: str, state_dir: str) -> Optional[Seal]:
    """The seal of the checkpoint at `path`, None where there is none that can be read."""
    try:
        with open(_place(path, state_dir), encoding="utf-8", errors="surrogateescape") as file:
            value = json.load(file)
        return _parse(value) if value.get("version") == VERSION and value.get("path") == path else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def verify_seal(seal: Seal, deep: bool = True, progress: Optional[Callable[[int], None]] = None) -> SealVerdict:
    """Compare a checkpoint with its seal: names and sizes, and (deep) every digest."""
    root, _ = files_of(seal.path)
    problems: List[Problem] = []
    warnings: List[str] = []
    anew: List[SealedFile] = []
    untouched = False
    for sealed in seal.files:
        problem, rewritten, same_time = _compare(root, sealed, deep, progress)
        untouched = untouched or (same_time and not sealed.name.endswith(TEXTS))
        if problem is None:
            continue
        if sealed.name.endswith(TEXTS):
            warnings.append(f"{problem.file} is not as it was when the checkpoint was sealed")
        elif rewritten:
            anew.append(sealed)
        else:
            problems.append(problem)
    if anew and (untouched or problems):
        for sealed in anew:
            problems.append(
                Problem(
                    printable(sealed.name), "mixed", "the file that was sealed", "another one, beside untouched files"
                )
            )
        anew = []
    if anew:
        warnings = ["written anew since it was sealed, so that the seal says nothing of it"]
    return SealVerdict(tuple(problems), tuple(warnings), bool(anew))


def apply_seals(
    report: RunReport, state_dir: str, deep: bool, progress: Optional[Callable[[int], None]] = None
) -> RunReport:
    """The report, with what the seals add: rot makes damaged, a seal that holds (deep) makes verifiable."""
    checkpoints = tuple(_sealed(each, state_dir, deep, progress) for each in report.checkpoints)
    intact = [each for each in checkpoints if each.intact]
    return report._replace(checkpoints=checkpoints, newest_intact=intact[-1] if intact else None)


def due(report: RunReport, state_dir: str, keep: int = 2) -> List[Checkpoint]:
    """Which intact checkpoints to seal: those of the newest `keep` that have no seal that still fits, newest first."""
    newest = [each for each in report.checkpoints if each.intact][-keep:] if keep > 0 else []
    return [each for each in reversed(newest) if not _fits(each, state_dir)]


def prune(state_dir: str) -> int:
    """Forget the seals of checkpoints that are gone; returns how many."""
    removed = 0
    folder = os.path.join(state_dir, "seals")
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        place = os.path.join(folder, name)
        try:
            with open(place, encoding="utf-8", errors="surrogateescape") as file:
                path = json.load(file)["path"]
            root, files = files_of(path)
            gone = not files and os.path.isdir(os.path.dirname(root))  # an unmounted file system is not gone
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if gone:
            os.unlink(place)
            removed += 1
    return removed


def files_of(path: str) -> Tuple[str, List[str]]:
    """(directory, names of files relative to it) of a checkpoint: a directory, a file, or a prefix of files."""
    if os.path.isdir(path):
        return path, sorted(_below(path))
    root, name = os.path.split(path)
    if os.path.lexists(path):
        spread = f"{name}_gda"  # Flax keeps arrays of several processes beside the file
        beside = [f"{spread}/{each}" for each in _below(os.path.join(root, spread))]
        if name.endswith(".weights.json"):  # Keras' index of shards
            stem = f"{name[: -len('.weights.json')]}_"
            beside += [each for each in os.listdir(root) if each.startswith(stem) and each.endswith(".weights.h5")]
        return root, [name, *sorted(beside)]
    before, template, after = name.partition("{rank}")
    try:
        names = os.listdir(root)
    except OSError:
        return root, []
    if template:
        found = [each for each in names if each.startswith(before) and each.endswith(after)]
        return root, sorted(each for each in found if each[len(before) : len(each) - len(after)].isdigit())
    return root, sorted(each for each in names if each.startswith((name + ".index", name + ".data-", name + ".meta")))


def _below(path: str) -> Iterator[str]:
    count = 0
    for where, dirs, files in os.walk(path):
        dirs.sort()
        for name in files:
            count += 1
            if count > MAX_FILES:
                return
            yield os.path.relpath(os.path.join(where, name), path)


def _digest(root: str, name: str, progress: Callable[[int], None]) -> SealedFile:
    path = os.path.join(root, name)
    try:
        with Reader(path, progress) as reader:
            segment = MIN_SEGMENT
            while segment * MAX_SEGMENTS < reader.size:
                segment *= 2
            digests = tuple(_segments(reader, segment))
            changed = reader.changed()
            if changed is not None:
                raise SealError(f"{path} was written to while it was read")
            return SealedFile(name, reader.size, reader.stat.st_mtime_ns, segment, digests)
    except Broken as broken:
        raise SealError(f"{path}: {broken.fault.found}") from None
    except OSError as error:
        raise SealError(f"{path}: {fault_of_error(error, path).found}") from None


def _segments(reader: Reader, segment: int) -> Iterator[int]:
    """The CRC-32 of each segment, pages given back to the system behind the reading."""
    at = 0
    while at < reader.size:
        length = min(max(segment, 1 << 20), reader.size - at)
        if segment >= length:
            yield crc32(reader.blocks(at, length))
        else:
            for block in reader.blocks(at, length):
                for start in range(0, len(block), segment):
                    yield crc32([block[start : start + segment]])
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(reader.fd, at, length, os.POSIX_FADV_DONTNEED)
        at += length


def _compare(
    root: str, sealed: SealedFile, deep: bool, progress: Optional[Callable[[int], None]]
) -> Tuple[Optional[Problem], bool, bool]:
    """(problem, whether the file looks written anew, whether its time is the sealed one)."""
    path = os.path.join(root, sealed.name)
    name = printable(sealed.name)
    try:
        info = os.stat(path)
        same_time = info.st_mtime_ns == sealed.mtime_ns
        if info.st_size != sealed.size:
            expected, found = f"{grouped(sealed.size)} bytes, as sealed", f"{grouped(info.st_size)} bytes"
            return Problem(name, "truncated", expected, found), not same_time and info.st_size > 0, same_time
        if not deep:
            return None, False, same_time
        with Reader(path, progress) as reader:
            now = tuple(_segments(reader, sealed.segment))
    except Broken as broken:
        return Problem(name, broken.fault.code, "the file that was sealed", broken.fault.found), False, False
    except OSError as error:
        fault = fault_of_error(error, path)
        return Problem(name, fault.code, "the file that was sealed", fault.found), False, False
    differing = [index for index, (was, is_) in enumerate(zip(sealed.digests, now)) if was != is_]
    if not differing:
        return None, False, same_time
    rewritten = not same_time and len(differing) * 2 > len(sealed.digests)
    where = f"bytes {grouped(differing[0] * sealed.segment)} to {grouped((differing[-1] + 1) * sealed.segment)}"
    return Problem(name, "checksum", "the bytes that were sealed", f"others in {where}"), rewritten, same_time


def _sealed(
    checkpoint: Checkpoint, state_dir: str, deep: bool, progress: Optional[Callable[[int], None]]
) -> Checkpoint:
    if not checkpoint.intact:
        return checkpoint
    seal = load_seal(checkpoint.path, state_dir)
    if seal is None:
        return checkpoint
    verdict = verify_seal(seal, deep, progress)
    checkpoint = checkpoint._replace(warnings=(*checkpoint.warnings, *verdict.warnings))
    if verdict.problems:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(seal.made))
        more = f" (and {len(verdict.problems) - 1} more)" if len(verdict.problems) > 1 else ""
        reason = f"{verdict.problems[0].sentence()}{more}; sealed on {day}"
        return checkpoint._replace(status=Status.DAMAGED, reason=reason, problems=verdict.problems)
    if deep and not verdict.void:
        size = sum(each.size for each in seal.files)
        reason = f"{checkpoint.reason}; {human(size)} as sealed"
        return checkpoint._replace(unverifiable=False, reason=reason)
    return checkpoint


def _fits(checkpoint: Checkpoint, state_dir: str) -> bool:
    """Is there a seal of the files as they are now, by name, size and time?"""
    seal = load_seal(checkpoint.path, state_dir)
    if seal is None:
        return False
    root, names = files_of(checkpoint.path)
    if [each.name for each in seal.files] != names:
        return False
    for each in seal.files:
        try:
            info = os.stat(os.path.join(root, each.name))
        except OSError:
            return False
        if (info.st_size, info.st_mtime_ns) != (each.size, each.mtime_ns):
            return False
    return True


def _place(path: str, state_dir: str) -> str:
    import hashlib

    name = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
    return os.path.join(state_dir, "seals", f"{name}.json")


def _store(seal: Seal, state_dir: str) -> None:
    place = _place(seal.path, state_dir)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    files = [[each.name, each.size, each.mtime_ns, each.segment, _pack(each.digests)] for each in seal.files]
    value = {"version": VERSION, "path": seal.path, "step": seal.step, "made": seal.made, "files": files}
    temporary = f"{place}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(value, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _parse(value: Dict[str, Any]) -> Seal:
    files = tuple(
        SealedFile(str(name), int(size), int(mtime), int(segment), tuple(_unpack(digests)))
        for name, size, mtime, segment, digests in value["files"]
    )
    step = value["step"]
    return Seal(str(value["path"]), step if isinstance(step, int) else None, float(value["made"]), files)


def _pack(digests: Iterable[int]) -> str:
    return "".join(f"{each:08x}" for each in digests)


def _unpack(text: str) -> Iterator[int]:
    for at in range(0, len(text), 8):
        yield int(text[at : at + 8], 16)
