"""The bytes of one file: `examine` finds its kind, has it checked, and turns every error into a fault."""

from __future__ import annotations

import os

from chainwatch.checkpoints.files.base import Broken, Fault, Finding, Reader, fault_of_error

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Optional

__all__ = ["Broken", "Fault", "Finding", "Reader", "examine", "kind_of"]

MAGIC = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x93NUMPY", "npy"),
    (b"\x0c\xdb\x3a\x2a", "ocdbt"),
    (b"\x0c\xdb\x20\xde", "ocdbt"),
    (b"\x1f\x8b", "tar"),
)
"""First bytes -> file kind. A zip is looked into: torch, npz, Keras or a plain one."""

LEGACY = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
"""The magic number of `torch.save` before its zip format; a pickle of any protocol begins with it."""
HEAD = 32
"""First bytes that tell the kind."""

SUFFIX = {
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
    ".distcp": "distcp",
    ".safetensors": "safetensors",
    ".json": "json",
    ".npz": "npz",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".keras": "keras",
    ".msgpack": "msgpack",
    ".index": "tf_index",
    ".ocdbt": "ocdbt",
    ".tar": "tar",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".metadata": "dcp_metadata",
}
"""Name ending -> the kind that is expected where the first bytes say nothing (zeros, cut)."""

MODULE = {
    "zip": "torch_zip",
    "torch": "torch_zip",
    "torch_zip": "torch_zip",
    "npz": "npz",
    "keras": "keras",
    "json": "texts",
    "text": "texts",
    "pickle": "pickles",
    "dcp_metadata": "dcp_metadata",
    "npy": "npz",
}
"""File kind -> module of this folder that checks it, where the names differ. `raw` (no structure) needs none."""


def kind_of(name: str, head: bytes) -> str:
    """The kind of a file, by its first bytes, else by its name; `raw` where neither says anything."""
    ending = SUFFIX.get(name if name == ".metadata" else os.path.splitext(name)[1], "raw")
    for magic, kind in MAGIC:
        if head.startswith(magic):
            return ending if kind == "zip" and ending in ("npz", "keras", "distcp") else kind
    if head[:1] == b"\x80" and LEGACY in head:
        return "torch_legacy"
    if ending == "raw" and head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    return ending


def examine(
    path: str,
    deep: bool = False,
    kind: Optional[str] = None,
    progress: Optional[Callable[[int], None]] = None,
) -> Finding:
    """Judge one file. Never raises for anything that the file system or the file does.

    Args:
        kind: the file kind where a layout knows better than the first bytes do (`texts`, `dcp_metadata`, `raw` …).
        progress: called with the number of bytes read, by deep checks.
    """
    try:
        with Reader(path, progress) as reader:
            if reader.size == 0 and kind != "raw":
                return Finding(kind or kind_of(reader.name, b""), (Fault("empty", "data", "0 bytes"),))
            found = kind or kind_of(reader.name, reader.read(0, min(HEAD, reader.size)))
            try:
                finding = _check(found, reader, deep)
            except Broken as broken:
                finding = Finding(found, (broken.fault,))
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - bytes nobody thought of: whatever a parser trips over is a fault
                finding = Finding(found, (Fault("structure", f"a well-formed {found} file", type(error).__name__),))
            changed = reader.changed()
            return finding if changed is None else finding._replace(faults=(changed, *finding.faults))
    except Broken as broken:
        return Finding(kind or "raw", (broken.fault,))
    except OSError as error:
        return Finding(kind or "raw", (fault_of_error(error, path),))


def _check(kind: str, reader: Reader, deep: bool) -> Finding:
    if kind == "raw":
        if deep:
            for _ in reader.blocks(0, reader.size):
                pass
        return Finding("raw")
    # importlib would bring `warnings` into every start of `chainwatch latest`
    module: Any = __import__(f"{__name__}.{MODULE.get(kind, kind)}", fromlist=("check",))
    finding: Finding = module.check(reader, deep)
    return finding
