"""Files that look like saves of a kind that no layout knows (`model_000100.pkl`).

Asked only where nothing was recognised: such a run is not one that has saved nothing, and a start from the beginning would
write over what it has. The look is cheap and shallow, and it rather stays silent than take data for saves: the kinds that
the layouts know (`.pt`, `.npz`, …) were judged by them, and what they left out is no save.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.files.base import printable

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import List, Tuple

MAX_ENTRIES = 2_000
"""Entries of one directory that are looked at."""
MAX_FOLDERS = 100
"""Directories directly below that are looked at."""
ENDINGS = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".params", ".eqx", ".ckpt")
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")
_OTHERS = (
    "data", "shard", "fold", "split", "sample", "cache", "index", "vocab", "token", "feature", "embed", "scaler",
    "rng", "random", "-of-", "rank", "metric", "result", "predict", "eval", "history", "stats", "log", "memory", "profil",
    "trace", "event", "config", "hparam", "args",
)  # fmt: skip
"""Words in names of pickles that programs of this field write, or read, and that are no saves."""
_FOLDERS = ("step", "steps", "globalstep", "iter", "iteration", "epoch", "checkpoint", "ckpt", "save")
"""Directories whose number is the save's own: `step_100/params.pkl`."""
_NO_SAVES = frozenset(("__pycache__", "node_modules", "wandb", "tensorboard", "tb_logs", "site-packages", "mlruns"))


def unknown_saves(path: str) -> Tuple[str, ...]:
    """Names (relative to `path`, printable) of files there, or one directory below, that look like saves. Never raises."""
    found: List[str] = []
    below: List[str] = []
    for entry in _entries(path):
        if _is_folder(entry):
            if not entry.name.startswith(".") and entry.name not in _NO_SAVES and len(below) < MAX_FOLDERS:
                below.append(entry.name)
        elif _looks(entry, False):
            found.append(entry.name)
    for name in sorted(below):
        if not any(word in name.lower() for word in _OTHERS):
            inside = [entry for entry in _entries(os.path.join(path, name)) if _looks(entry, _is_numbered(name))]
            found.extend(os.path.join(name, entry.name) for entry in inside)
    return tuple(printable(name) for name in sorted(found))


def _entries(path: str) -> List[os.DirEntry[str]]:
    entries: List[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as listing:
            for entry in listing:
                entries.append(entry)
                if len(entries) >= MAX_ENTRIES:
                    break
    except OSError:
        pass
    return entries


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _looks(entry: os.DirEntry[str], numbered: bool) -> bool:
    lower = entry.name.lower()
    for packed in _PACKED:
        if lower.endswith(packed):
            lower = lower[: -len(packed)]
    if lower.startswith(".") or not lower.endswith(ENDINGS) or any(word in lower for word in _OTHERS):
        return False
    stem = lower.rpartition(".")[0]
    if not numbered and not any(character in "0123456789" for character in stem):
        return False
    try:
        return entry.is_file() and entry.stat().st_size > 0
    except OSError:
        return False


def _is_numbered(name: str) -> bool:
    letters = "".join(character for character in name.lower() if character.isalpha())
    return any(character in "0123456789" for character in name) and (not letters or letters in _FOLDERS)
