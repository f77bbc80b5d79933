"""The file system's part of the two changes to user data. Plain functions of plain arguments, for whichever process does
them: storage may hang."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path

from chainwatch.actions import whole
from chainwatch.model.checkpoint import Checkpoint
from chainwatch.model.plain_file import text_of
from chainwatch.store.records import Move

ASIDE = ".set-aside-by-chainwatch"
"""Directory beside the checkpoints: hidden, so that no framework's glob and no inventory finds what lies there."""

SHARDED = ".weights.json"
TENSORFLOW = "checkpoint"
_NAMED = re.compile(r'^(model_checkpoint_path:\s*)"(?:[^"\\\n]|\\.)*"', re.M)
_POINTERS = {
    "deepspeed": "latest",
    "deepspeed_universal": "latest_universal",
    "megatron": "latest_checkpointed_iteration.txt",
    "nanotron": "latest.txt",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change that ought to be made; the fields are those of a `Move`."""

    kind: str
    path: str
    target: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A change that cannot be made, as one sentence."""

    why: str


def aside(path: str) -> tuple[Change, ...]:
    """What moves one checkpoint (a directory, a file, or all files of a prefix) into `ASIDE` beside it; nothing where it
    is gone. Raises OSError."""
    path = path.rstrip("/")
    sources = [path] if _exists(path) else sorted(glob.glob(glob.escape(path) + ".*"))
    if path.endswith(SHARDED):  # Keras' index of shards that lie beside it
        sources += sorted(glob.glob(glob.escape(path[: -len(SHARDED)]) + "_[0-9]*.weights.h5"))
    parent = os.path.join(os.path.dirname(path), ASIDE)
    return tuple(
        Change("set_aside", source, _free(os.path.join(parent, os.path.basename(source)))) for source in sources
    )


def pointer(run: str, newest: Checkpoint) -> Change | Problem | None:
    """What makes the framework's pointer file name `newest`. None where the format has none, or it is right already."""
    name = TENSORFLOW if newest.format == "tf" else _POINTERS.get(newest.format)
    if name is None:
        return None
    path = os.path.join(run, name)
    content = os.path.basename(newest.path.rstrip("/"))
    if newest.format in {"megatron", "nanotron"} and newest.step is not None:
        content = str(newest.step)
    try:
        before = text_of(path, "strict") if os.path.lexists(path) else ""
    except OSError as e:
        return Problem(f"{path} cannot be read: {e.strerror}")
    except UnicodeDecodeError:
        return Problem(f"{path} is no text: it stays as it is")
    if os.path.islink(path):
        return Problem(f"{path} is a symbolic link: it stays as it is")
    if name == TENSORFLOW:
        if not before:
            return None  # saved without a manager
        content = _NAMED.sub(lambda match: f'{match[1]}"{content}"', before, count=1).strip()
    return None if before.strip() == content else Change("pointer", path, content, before)


def links(run: str, newest: Checkpoint) -> tuple[Change, ...]:
    """What makes links such as `last.ckpt`, whose checkpoint was moved aside, lead to `newest`. Raises OSError."""
    found = []
    for name in sorted(os.listdir(run)):
        path = os.path.join(run, name)
        if not os.path.islink(path) or os.path.exists(path):
            continue
        told = os.readlink(path)
        beside = os.path.join(run, os.path.dirname(told), ASIDE, os.path.basename(told))
        if _exists(beside) and os.path.splitext(told)[1] == os.path.splitext(newest.path)[1]:
            target = newest.path if os.path.isabs(told) else os.path.relpath(newest.path, run)
            found.append(Change("link", path, target, told))
    return tuple(found)


def make(change: Change | Move) -> Problem | None:
    """Make a change that was journaled."""
    try:
        if change.kind == "link":
            _link(change.target, change.path)
            return None
        if change.kind != "set_aside":
            _write(change.path, change.target)
            return None
        os.makedirs(os.path.dirname(change.target), exist_ok=True)
        if _exists(change.target):
            return Problem(f"{change.target} exists already: it would be overwritten")
        _rename(change.path, change.target)
    except OSError as e:
        return Problem(f"{change.path} could not be changed: {e.strerror or e}")
    return None


def undo(change: Change | Move) -> Problem | None:
    """Undo a change that was made, unless that would overwrite something."""
    try:
        if change.kind == "set_aside":
            if _exists(change.path):
                return Problem(f"{change.path} exists again: it would be overwritten; move it away first")
            _rename(change.target, change.path)
            return None
        if change.kind == "link":
            if not os.path.islink(change.path) or os.readlink(change.path) != change.target:
                return Problem(f"{change.path} was changed since: left as it is")
            _link(change.before, change.path)
            return None
        now_there = text_of(change.path) if os.path.lexists(change.path) else ""
        if now_there.strip() != change.target:
            return Problem(f"{change.path} was changed since ({now_there.strip()[:80]!r}): left as it is")
        if change.before:
            _write(change.path, change.before)
        else:
            os.unlink(change.path)
    except OSError as e:
        return Problem(f"{change.path} could not be changed back: {e.strerror or e}")
    return None


def was_made(change: Change | Move) -> bool:
    """Whether a planned change was made, found by looking. Raises OSError where the storage cannot tell."""
    there = _exists(change.path)
    if change.kind == "set_aside":
        return not there and _exists(change.target)
    if change.kind == "link":
        return there and os.path.islink(change.path) and os.readlink(change.path) == change.target
    return there and text_of(change.path).strip() == change.target


def _exists(path: str) -> bool:
    """As `os.path.lexists`, but a storage that fails is an OSError, not an absence."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _link(target: str, path: str) -> None:
    """Replace a symbolic link as a whole."""
    temporary = f"{path}.{os.getpid()}.new"
    os.symlink(target, temporary)
    os.replace(temporary, path)


def _rename(source: str, target: str) -> None:
    os.rename(source, target)


def _write(path: str, content: str) -> None:
    """Replace the file as a whole, with the mode that it had."""
    mode = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else 0o644
    whole.write(Path(path), os.fsencode(content), mode)


def _free(path: str) -> str:
    candidate, n = path, 1
    while _exists(candidate):
        candidate = f"{path}.{n}"
        n += 1
    return candidate
