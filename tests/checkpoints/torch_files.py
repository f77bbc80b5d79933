"""Small files as torch.save writes them, made without torch."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any


class _Storage:
    def __init__(self, key: str, count: int) -> None:
        self.id = ("storage", _FloatStorage, key, "cpu", count)


class _FloatStorage:
    pass


_FloatStorage.__module__, _FloatStorage.__qualname__, _FloatStorage.__name__ = "torch", "FloatStorage", "FloatStorage"


def save(path: Path, value: Any, count: int = 16) -> None:
    """A zip with the plain `value` and one float storage of `count` elements in its pickle."""
    import io
    import sys
    import types

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing: Any) -> Any:
            return thing.id if isinstance(thing, _Storage) else None

    torch = types.ModuleType("torch")
    torch.FloatStorage = _FloatStorage  # type: ignore[attr-defined]
    known = sys.modules.get("torch")
    sys.modules["torch"] = torch
    try:
        buffer = io.BytesIO()
        Pickler(buffer, protocol=2).dump({"value": value, "tensor": _Storage("0", count)})
    finally:
        if known is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = known
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", buffer.getvalue())
        archive.writestr(f"{path.stem}/data/0", bytes(4 * count))
        archive.writestr(f"{path.stem}/version", "3\n")
