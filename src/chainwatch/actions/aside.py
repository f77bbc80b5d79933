"""The two changes to user data that a configuration may allow: a damaged checkpoint moved aside, a pointer file mended.

Each is planned in the journal before it is made, never deletes a byte, stays inside one directory (so one file system),
and is undone by `restore`. For a person's command, which may wait for the storage; the daemon takes the same steps
through its reader processes.
"""

from __future__ import annotations

import os
from datetime import datetime

from chainwatch.actions import moving
from chainwatch.actions.moving import ASIDE
from chainwatch.model.checkpoint import Checkpoint
from chainwatch.store import Store
from chainwatch.store.records import Move


class MoveError(Exception):
    """A move or a pointer could not be made or undone, as one sentence."""


class NothingToUndo(MoveError):
    """No change of ours is known there."""


def plan(store: Store, change: moving.Change, chain: str | None, why: str, now: datetime) -> Move:
    """Write a change into the journal."""
    return store.plan_move(chain, change.kind, change.path, change.target, change.before, why, now)


def record(store: Store, move: Move, problem: moving.Problem | None, now: datetime) -> Move:
    """Write down what came of a planned change."""
    return store.mark_move(move.id, "undone" if problem else "made", now)


def set_aside(store: Store, checkpoint: Checkpoint, chain: str | None, why: str, now: datetime) -> list[Move]:
    """Move one checkpoint (a directory, a file, or all files of a prefix) into `ASIDE` beside it.

    Raises MoveError where the file system refuses; what was journaled then stays planned and is settled later.
    """
    try:
        changes = moving.aside(checkpoint.path)
    except OSError as e:
        raise MoveError(f"{checkpoint.path} cannot be looked at: {e.strerror or e}") from e
    if not changes:
        raise MoveError(f"{checkpoint.path} is not there any more: nothing was moved")
    return [_made(store, plan(store, change, chain, why, now), now) for change in changes]


def mend_pointer(store: Store, run: str, newest: Checkpoint, chain: str | None, why: str, now: datetime) -> Move | None:
    """Make the framework's pointer file name `newest`. None where the format has none, or it is right already."""
    change = moving.pointer(run, newest)
    if isinstance(change, moving.Problem):
        raise MoveError(change.why)
    return None if change is None else _made(store, plan(store, change, chain, why, now), now)


def mend_links(store: Store, run: str, newest: Checkpoint, chain: str | None, why: str, now: datetime) -> list[Move]:
    """Make links whose checkpoint was moved aside lead to `newest`. Raises MoveError."""
    try:
        changes = moving.links(run, newest)
    except OSError as e:
        raise MoveError(f"{run} cannot be looked at: {e.strerror or e}") from e
    return [_made(store, plan(store, change, chain, why, now), now) for change in changes]


def restore(store: Store, path: str, now: datetime) -> list[Move]:
    """Undo every change that was made to `path` (a checkpoint that was moved, or a pointer file), newest first; with a
    checkpoint also what was mended in the same moment because it was moved, unless somebody changed it since.

    Raises MoveError where there is nothing to undo, or where undoing would overwrite something.
    """
    wanted = os.path.abspath(path)
    made = store.moves(state="made")
    moves = [m for m in made if wanted in {m.path, m.target, os.path.dirname(m.path)}]
    moves = moves or [m for m in made if m.path.startswith(f"{wanted}.")]  # the files of a prefix
    if wanted.endswith(moving.SHARDED):
        stem = wanted[: -len(moving.SHARDED)] + "_"
        moves += [m for m in made if m.path.startswith(stem) and m.path.endswith(".weights.h5") and m not in moves]
    newest = {m.path: m.id for m in moves if m.kind == "set_aside"}
    moves = [m for m in moves if newest.get(m.path, m.id) == m.id]
    if not moves:
        raise NothingToUndo(f"nothing that chainwatch moved or mended is known at {wanted}")
    for move in reversed(moves):
        problem = moving.undo(move)
        if problem is not None:
            raise MoveError(problem.why)
        store.mark_move(move.id, "undone", now)
    moments = {(os.path.dirname(m.path), m.at) for m in moves if m.kind == "set_aside"}
    mended = [m for m in made if m.kind != "set_aside" and (os.path.dirname(m.path), m.at) in moments]
    for move in reversed(mended):
        if moving.undo(move) is None:
            store.mark_move(move.id, "undone", now)
            moves.append(move)
    return moves


def settle(store: Store, now: datetime) -> list[Move]:
    """After a crash: planned moves are found made or not by looking, and journaled so. Where the storage cannot tell
    now, they stay planned."""
    settled = []
    for move in store.moves(state="planned"):
        try:
            made = moving.was_made(move)
        except OSError:
            continue
        store.mark_move(move.id, "made" if made else "undone", now)
        settled.append(move)
    return settled


def _made(store: Store, move: Move, now: datetime) -> Move:
    problem = moving.make(move)
    record(store, move, problem, now)
    if problem is not None:
        raise MoveError(problem.why)
    return move


__all__ = [
    "ASIDE",
    "MoveError",
    "NothingToUndo",
    "mend_links",
    "mend_pointer",
    "plan",
    "record",
    "restore",
    "set_aside",
    "settle",
]
