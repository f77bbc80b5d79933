"""What is fuzzed: every reader of checkpoint files, each as a function of bytes that may raise nothing but `Broken`.

A reader that raises anything else would be caught by `examine`, but its answer would be a bare exception name; so that
is a finding here. Endless loops and memory are found by the fuzzer's own limits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib import import_module

from chainwatch.checkpoints.files.base import Broken, Reader

Target = Callable[[bytes], None]

_WHERE = tempfile.mkdtemp(prefix="chainwatch-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)

FILES = {
    "torch": ("torch_zip", "x.pt"),
    "torch_legacy": ("torch_legacy", "x.pt"),
    "pickle": ("pickles", "x.pkl"),
    "dcp_metadata": ("dcp_metadata", ".metadata"),
    "distcp": ("distcp", "x.distcp"),
    "safetensors": ("safetensors", "x.safetensors"),
    "json": ("texts", "x.json"),
    "npz": ("npz", "x.npz"),
    "npy": ("npz", "x.npy"),
    "hdf5": ("hdf5", "x.h5"),
    "keras": ("keras", "x.keras"),
    "msgpack": ("msgpack", "x.msgpack"),
    "tf_index": ("tf_index", "x.index"),
    "ocdbt": ("ocdbt", "manifest.ocdbt"),
    "tar": ("tar", "x.tar"),
}
"""Target -> (module in `chainwatch.checkpoints.files`, name of the file)."""


def file_target(name: str) -> Target | None:
    """A target that checks a whole file, deep; None where this version has no such reader."""
    module_name, file_name = FILES[name]
    try:
        module = import_module(f"chainwatch.checkpoints.files.{module_name}")
    except ImportError:
        return None
    path = os.path.join(_WHERE, f"{os.getpid()}-{file_name}" if file_name[0] != "." else file_name)

    def run(data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)
        for deep in (False, True):
            try:
                with Reader(path) as reader:
                    module.check(reader, deep)
            except Broken:
                pass

    return run


def _ocdbt(data: bytes) -> None:
    """The bodies of manifests and nodes, which a fuzzer cannot reach through their checksums."""
    from chainwatch.checkpoints.files import ocdbt

    for decode in (ocdbt.manifest, lambda body: ocdbt.node(body, "", b"", body[0] if body else 0)):
        try:
            decode(data)
        except Broken:
            pass


def _tf_blocks(data: bytes) -> None:
    """Blocks of an SSTable and the entries in them."""
    from chainwatch.checkpoints.files import tf_index

    try:
        for key, value in tf_index._entries(data):
            tf_index._tensor(key, value)
    except Broken:
        pass
    try:
        tf_index._tensor(b"name", data)
    except Broken:
        pass


def _zarr(data: bytes) -> None:
    """The metadata of an array, then a chunk of it, split at the first NUL byte."""
    from chainwatch.checkpoints.files import zarr

    text, _, chunk = data.partition(b"\0")
    try:
        grid = zarr.parse(text)
        if grid is None:
            return
        if grid.total <= 10_000:
            for _name in grid.names():
                pass

        def read(offset: int, length: int) -> bytes:
            if offset < 0 or offset + length > len(chunk):
                raise Broken("truncated", "", "")
            return chunk[offset : offset + length]

        zarr.check_chunk(read, lambda at, length: [memoryview(read(at, length))], 0, len(chunk), grid, True)
    except Broken:
        pass


def _zstd(data: bytes) -> None:
    from chainwatch.checkpoints.files import zstd

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    try:
        zstd.walk(read, 0, len(data))
        zstd.decode(data, 1 << 20)
    except Broken:
        pass


PARTS: dict[str, Target] = {"ocdbt_nodes": _ocdbt, "tf_blocks": _tf_blocks, "zarr": _zarr, "zstd": _zstd}


def all_targets() -> dict[str, Target]:
    """Every target that this version has, by name."""
    found = {name: target for name in FILES if (target := file_target(name)) is not None}
    return {**found, **PARTS}
