"""Seeds: real files from the test archives, each put before the reader that is for it."""

from __future__ import annotations

import fnmatch
import sys
import tarfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "tests" / "checkpoints" / "data"
MAX_SEED = 64 << 10

PATTERNS = {
    "*.pt": ("torch", "torch_legacy"),
    "*.pth": ("torch",),
    "*.bin": ("torch",),
    "*.ckpt": ("torch",),
    "*.pkl": ("torch", "pickle"),
    "*.metadata": ("dcp_metadata", "pickle"),
    "*.distcp": ("distcp",),
    "*.safetensors": ("safetensors",),
    "*.json": ("json",),
    "*.npz": ("npz",),
    "*.npy": ("npy",),
    "*.h5": ("hdf5",),
    "*.keras": ("keras",),
    "*.msgpack": ("msgpack",),
    "*/checkpoint_[0-9]*": ("msgpack",),
    "*.index": ("tf_index", "tf_blocks"),
    "*/manifest.ocdbt": ("ocdbt",),
    "*/d/*": ("ocdbt", "zstd"),
    "*/.zarray": ("zarr",),
}


def write(where: Path) -> None:
    """One folder of seeds for each target, below `where`."""
    for archive in sorted(DATA.glob("*.tar.*")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and 0 < member.size <= MAX_SEED:
                    file = tar.extractfile(member)
                    data = file.read() if file is not None else b""
                    _place(where, member.name, data)
    write_hdf5(where)


def write_hdf5(where: Path) -> None:
    """Small HDF5 files with every kind of chunk index and filter that h5py writes; nothing where it is missing."""
    try:
        import h5py
    except ImportError:
        return
    whole = {"chunks": (5, 6)}
    kinds: dict[str, tuple[str | None, dict[str, Any]]] = {
        "tree": (None, {"chunks": (1, 2), "compression": "gzip", "shuffle": True, "fletcher32": True}),
        "single": ("latest", {**whole, "compression": "gzip"}),
        "fixed": ("latest", {"chunks": (1, 2), "fletcher32": True}),
        "extensible": ("latest", {"chunks": (1, 1), "maxshape": (None, 6)}),
        "second_tree": ("latest", {"chunks": (1, 1), "maxshape": (None, None), "compression": "gzip"}),
    }
    folder = where / "hdf5"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (version, how) in kinds.items():
        with h5py.File(folder / f"made_{name}.h5", "w", libver=version) as file:
            file.create_dataset(
                "weights", data=[[float(row * column) for column in range(6)] for row in range(5)], **how
            )


def _place(where: Path, name: str, data: bytes) -> None:
    for pattern, targets in PATTERNS.items():
        if fnmatch.fnmatch(name, pattern):
            for target in targets:
                folder = where / target
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name.replace("/", "_")[-120:]).write_bytes(data)
            if name.endswith(("manifest.ocdbt",)) or "/d/" in name:
                _bodies(where, name, data)


def _bodies(where: Path, name: str, data: bytes) -> None:
    """Decoded bodies of nodes as seeds of their own."""
    from chainwatch.checkpoints.files import ocdbt
    from chainwatch.checkpoints.files.base import Broken

    for magic in (ocdbt.MANIFEST, ocdbt.BTREE):
        try:
            body = ocdbt.payload(data, magic)
        except Broken:
            continue
        if body:
            folder = where / "ocdbt_nodes"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name.replace("/", "_")[-120:]).write_bytes(body)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
