"""The two changes to user data that a configuration may allow: a damaged checkpoint moved aside, a pointer file mended.

Each is planned in the journal before it is made, never deletes a byte, stays inside one directory (so one file system),
and is undone by `restore`.
"""

from __future__ import annotations

import glob
import os
from datetime import datetime
from pathlib import Path

from chainwatch.actions import whole
from chainwatch.model.checkpoint import Checkpoint
from chainwatch.store import Store
from chainwatch.store.records import Move

ASIDE = ".set-aside-by-chainwatch"
"""Directory beside the checkpoints: hidden, so that no framework's glob and no inventory finds what lies there."""

_POINTERS = {
    "deepspeed": "latest",
    "deepspeed_universal": "latest_universal",
    "megatron": "latest_checkpointed_iteration.txt",
    "nanotron": "latest.txt",
}


class MoveError(Exception):
    """A move or a pointer could not be made or undone, as one sentence."""


class NothingToUndo(MoveError):
    """No change of ours is known there."""


def set_aside(store: Store, checkpoint: Checkpoint, chain: str | None, why: str, now: datetime) -> list[Move]:
    """Move one checkpoint (a directory, a file, or all files of a prefix) into `ASIDE` beside it.

    Raises MoveError where the file system refuses; what was journaled then stays planned and is settled later.
    """
    path = checkpoint.path.rstrip("/")
    sources = [path] if os.path.lexists(path) else sorted(glob.glob(glob.escape(path) + ".*"))
    if not sources:
        raise MoveError(f"{path} is not there any more: nothing was moved")
    parent = os.path.join(os.path.dirname(path), ASIDE)
    moves = []
    for source in sources:
        target = _free(os.path.join(parent, os.path.basename(source)))
        move = store.plan_move(chain, "set_aside", source, target, "", why, now)
        moves.append(_make(store, move, now))
    return moves


def mend_pointer(store: Store, run: str, newest: Checkpoint, chain: str | None, why: str, now: datetime) -> Move | None:
    """Make the framework's pointer file name `newest`. None where the format has none, or it is right already."""
    name = _POINTERS.get(newest.format)
    if name is None:
        return None
    path = os.path.join(run, name)
    content = os.path.basename(newest.path.rstrip("/"))
    if newest.format in {"megatron", "nanotron"} and newest.step is not None:
        content = str(newest.step)
    try:
        before = Path(path).read_text() if os.path.lexists(path) else ""
    except OSError as e:
        raise MoveError(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise MoveError(f"{path} is no text: it stays as it is") from e
    if os.path.islink(path):
        raise MoveError(f"{path} is a symbolic link: it stays as it is")
    if before.strip() == content:
        return None
    move = store.plan_move(chain, "pointer", path, content, before, why, now)
    return _make(store, move, now)


def restore(store: Store, path: str, now: datetime) -> list[Move]:
    """Undo every change that was made to `path` (a checkpoint that was moved, or a pointer file), newest first.

    Raises MoveError where there is nothing to undo, or where undoing would overwrite something.
    """
    wanted = os.path.abspath(path)
    made = store.moves(state="made")
    moves = [m for m in made if wanted in {m.path, m.target, os.path.dirname(m.path)}]
    moves = moves or [m for m in made if m.path.startswith(f"{wanted}.")]  # the files of a prefix
    newest = {m.path: m.id for m in moves if m.kind == "set_aside"}
    moves = [m for m in moves if newest.get(m.path, m.id) == m.id]
    if not moves:
        raise NothingToUndo(f"nothing that chainwatch moved or mended is known at {wanted}")
    for move in reversed(moves):
        if move.kind == "set_aside":
            if os.path.lexists(move.path):
                raise MoveError(f"{move.path} exists again: it would be overwritten; move it away first")
            _reversed(move)
        else:
            now_there = Path(move.path).read_text(errors="replace") if os.path.lexists(move.path) else ""
            if now_there.strip() != move.target:
                raise MoveError(f"{move.path} was changed since ({now_there.strip()[:80]!r}): left as it is")
            _reversed(move)
        store.mark_move(move.id, "undone", now)
    return moves


def _reversed(move: Move) -> None:
    try:
        if move.kind == "set_aside":
            _rename(move.target, move.path)
        elif move.before:
            _write(move.path, move.before)
        else:
            os.unlink(move.path)
    except OSError as e:
        raise MoveError(f"{move.path} could not be changed back: {e.strerror or e}") from e


def settle(store: Store, now: datetime) -> list[Move]:
    """After a crash: planned moves are found made or not by looking, and journaled so. Where the storage cannot tell
    now, they stay planned."""
    settled = []
    for move in store.moves(state="planned"):
        try:
            made = _was_made(move)
        except OSError:
            continue
        store.mark_move(move.id, "made" if made else "undone", now)
        settled.append(move)
    return settled


def _was_made(move: Move) -> bool:
    there = _exists(move.path)
    if move.kind == "set_aside":
        return not there and _exists(move.target)
    return there and Path(move.path).read_text(errors="replace").strip() == move.target


def _exists(path: str) -> bool:
    """As `os.path.lexists`, but a storage that fails is an OSError, not an absence."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _make(store: Store, move: Move, now: datetime) -> Move:
    try:
        if move.kind == "set_aside":
            os.makedirs(os.path.dirname(move.target), exist_ok=True)
            _rename(move.path, move.target)
        else:
            _write(move.path, move.target)
    except OSError as e:
        store.mark_move(move.id, "undone", now)
        raise MoveError(f"{move.path} could not be changed: {e.strerror or e}") from e
    store.mark_move(move.id, "made", now)
    return move


def _rename(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise MoveError(f"{target} exists already: it would be overwritten")
    os.rename(source, target)


def _write(path: str, content: str) -> None:
    """Replace the file as a whole, with the mode that it had."""
    mode = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else 0o644
    whole.write(Path(path), os.fsencode(content), mode)


def _free(path: str) -> str:
    candidate, n = path, 1
    while os.path.lexists(candidate):
        candidate = f"{path}.{n}"
        n += 1
    return candidate
