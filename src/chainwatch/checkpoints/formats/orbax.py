"""Orbax (JAX): a directory per step, of items that are OCDBT databases, zarr trees or JSON.

A save goes to `<step>.orbax-checkpoint-tmp[-<time>]` and is renamed when everything is written, so a final name means
that it was finished, on a local file system. On object stores, where a rename is not atomic, `commit_success.txt` is
the mark instead; newer versions write it everywhere. What Orbax needs to load, and what it can do without, is as in its
own compatibility tests (`experimental/v1/_src/testing/compatibility`): a missing `_sharding` or `array_metadatas` is
no damage, a missing `manifest.ocdbt` or `d/` is.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.files.base import printable
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.checkpoints.formats.ocdbt_database import judge_ocdbt
from chainwatch.checkpoints.formats.tensorstore import MANIFEST, Arrays, judge_zarr, load_json

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Set

TMP = ".orbax-checkpoint-tmp"
METADATA = "_CHECKPOINT_METADATA"
TREE = "_METADATA"
COMMIT = "commit_success.txt"
TREE_HANDLERS = ("PyTreeCheckpointHandler", "StandardCheckpointHandler", ".PyTreeHandler")
"""Handlers that write `_METADATA`, and need it."""
INTERNAL = ("d", "array_metadatas")
STRINGS = "_strings.json"
WITHOUT_ARRAYS = frozenset(("string", "None", "Dict", "List", "Tuple", "NamedTuple"))
"""Types of leaves for which nothing is written into the array store."""


class Orbax(Layout):
    """See the module."""

    name = "orbax"

    def owns(self, folder: Folder) -> bool:
        return (
            METADATA in folder.files
            or TREE in folder.files
            or MANIFEST in folder.files
            or TMP in folder.name
            or any(TREE in folder.sub(name).files or MANIFEST in folder.sub(name).files for name in _items(folder))
        )

    def named(self, name: str) -> bool:
        return TMP in name

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        return Candidate(self, run, name, step_of(name.partition(TMP)[0]), folder)

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        look.checksummed = False
        if TMP in candidate.name:
            _note_all(look, folder)
            look.uncommitted(candidate.name, "a directory with its final name", "still the temporary name of a save")
            return
        metadata = load_json(look, METADATA) if METADATA in folder else None
        if METADATA not in folder and any(METADATA in other.root.files for other in look.neighbours[:1]):
            look.warn(f"{METADATA} is not there, as it is in {look.neighbours[0].name}")
        metadata = metadata if isinstance(metadata, dict) else {}
        self._committed(candidate, look, metadata)
        handlers = metadata.get("item_handlers")
        if not isinstance(handlers, (dict, str, type(None))):
            look.problem(METADATA, "structure", "names of items", f"a {type(handlers).__name__}")
        if isinstance(handlers, dict):
            for item, handler in handlers.items():
                if not isinstance(item, str) or "/" in item or item in ("", ".", ".."):
                    look.problem(METADATA, "structure", "names of items", repr(item)[:100])
                elif item not in folder:
                    look.missing(item, f"item {printable(item)}, as {METADATA} says")
                else:
                    _judge_item(look, folder.sub(item), f"{item}/", str(handler), bool(metadata))
            rest: Iterable[str] = [name for name in _items(folder) if name not in handlers]
        else:
            rest = _items(folder)
            if isinstance(handlers, str) or _is_item(folder):
                _judge_item(look, folder, "", handlers if isinstance(handlers, str) else "", bool(metadata))
                rest = ()
            elif not rest and METADATA in folder:
                look.missing("default", "an item")
        for item in rest:
            _judge_item(look, folder.sub(item), f"{item}/", "", False)

    def _committed(self, candidate: Candidate, look: Look, metadata: Dict[str, Any]) -> None:
        folder = candidate.root
        if COMMIT in folder.files:
            look.file(COMMIT, "text")
            return
        if METADATA in folder and metadata.get("commit_timestamp_nsecs", 0) is None:
            look.uncommitted(METADATA, "the time of its commit", "none")
        older = [each for each in look.neighbours if (each.step or 0) < (candidate.step or 0) and TMP not in each.name]
        if older and COMMIT in older[0].root.files:
            look.uncommitted(COMMIT, f"the mark of a finished save, as in {older[0].name}", "not there")


def _items(folder: Folder) -> List[str]:
    """Directories that may be items of a composite checkpoint."""
    return [name for name in folder.dirs[:64] if name not in INTERNAL and not name.startswith((".", "ocdbt.process_"))]


def _is_item(folder: Folder) -> bool:
    return MANIFEST in folder or TREE in folder or "d" in folder


def _judge_item(look: Look, folder: Folder, prefix: str, handler: str, strict: bool) -> None:
    """One item: its JSON files, and the arrays in it. `strict` where its handler is known to write `_METADATA`."""
    if TMP in prefix:
        look.uncommitted(prefix.rstrip("/"), "an item with its final name", "still the temporary name of a save")
        return
    if folder.error is not None:
        look.fault(prefix.rstrip("/") or folder.name, folder.error)
        return
    tree: Dict[str, Any] = {}
    if TREE in folder:
        loaded = load_json(look, prefix + TREE)
        tree = loaded if isinstance(loaded, dict) else {}
    elif any(True for _ in look.neighbour_files(prefix + TREE)) or (
        strict and handler.endswith(TREE_HANDLERS) and "checkpoint" not in folder
    ):
        look.missing(prefix + TREE)
    for name in ("_sharding", "metadata", "metrics"):
        if name in folder.files:
            load_json(look, prefix + name)
    if "array_metadatas" in folder.dirs:
        for name in folder.sub("array_metadatas").files:
            load_json(look, f"{prefix}array_metadatas/{name}")
    if (
        handler.endswith("JsonCheckpointHandler")
        and "metadata" not in folder
        and (folder.files in ([], [COMMIT]) or any(True for _ in look.neighbour_files(prefix + "metadata")))
    ):
        look.missing(prefix + "metadata")
    if "checkpoint" in folder.files:
        look.file(prefix + "checkpoint", "msgpack")  # the aggregate file of Orbax before 0.5
        look.checksummed = False
    types = _leaf_types(tree)
    if "string" in types and STRINGS in folder:
        load_json(look, prefix + STRINGS)
    elif "string" in types:
        look.missing(prefix + STRINGS)
    if types and types <= WITHOUT_ARRAYS and MANIFEST not in folder:
        return
    store_all = bool(tree.get("store_array_data_equal_to_fill_value"))
    arrays: Optional[Arrays] = None
    if MANIFEST in folder or tree.get("use_ocdbt") or (("d" in folder.dirs) and not _has_zarr(folder)):
        if MANIFEST not in folder:
            look.missing(prefix + MANIFEST)
        else:
            arrays = judge_ocdbt(look, prefix, store_all)
    else:
        arrays = judge_zarr(look, prefix, store_all, skip=("array_metadatas", "d") if prefix else INTERNAL)
    if arrays is not None:
        _all_there(look, prefix, tree, arrays)


def _leaf_types(tree: Dict[str, Any]) -> Set[str]:
    """What kinds of values the tree holds, as far as it says."""
    listed = tree.get("tree_metadata")
    try:
        return {str(leaf["value_metadata"]["value_type"]) for leaf in listed.values()} if listed else set()
    except (TypeError, KeyError, AttributeError):
        return set()


def _has_zarr(folder: Folder) -> bool:
    return any(".zarray" in folder.sub(name) or "zarr.json" in folder.sub(name) for name in folder.dirs[:16])


def _all_there(look: Look, prefix: str, tree: Dict[str, Any], arrays: Arrays) -> None:
    """Every array that `_METADATA` lists must be there; said only where most are, so that names are surely alike."""
    listed = tree.get("tree_metadata")
    if not isinstance(listed, dict):
        return
    wanted: Set[str] = set()
    for leaf in listed.values():
        try:
            value = leaf["value_metadata"]
            if value.get("value_type") in ("jax.Array", "np.ndarray", "scalar") and not value.get("skip_deserialize"):
                wanted.add(".".join(str(part["key"]) for part in leaf["key_metadata"]))
        except (TypeError, KeyError, AttributeError):
            return
    lost = sorted(wanted - arrays.names)
    if lost and len(lost) * 2 < max(len(wanted), 3):
        look.problem(
            prefix + TREE, "lost", f"{len(wanted)} arrays, as it lists", f"{lost[0]} and {len(lost) - 1} more not there"
        )


def _note_all(look: Look, folder: Folder) -> None:
    """Take notice of everything below, so that a save that still goes on is seen as young."""
    seen = 0
    for where, dirs, files in os.walk(folder.path):
        for name in (*files, *dirs):
            relative = os.path.relpath(os.path.join(where, name), folder.path)
            info = folder.stat(relative)
            if info is not None:
                look.stats[relative] = info
            seen += 1
            if seen > 2_000:
                return


LAYOUT = Orbax()
