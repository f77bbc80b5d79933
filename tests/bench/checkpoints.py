"""Large checkpoints as the frameworks write them, made without them: for benchmarks."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import types
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from chainwatch.checkpoints.files.checksums import _crc32_function

ALIGNMENT = 64
_crc32 = _crc32_function()


class _Global:
    """Pickled as the name of a class, without the class."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class _Call:
    """Pickled as a call."""

    def __init__(self, function: _Global, arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments


class _Stored:
    """Pickled as a persistent id."""

    def __init__(self, *pid: Any) -> None:
        self.pid = pid


def opcodes(value: Any) -> bytes:
    """The pickle (protocol 2) of plain values, `_Global`, `_Call` and `_Stored`, memoised as torch's pickler does."""
    out = io.BytesIO()
    memo: dict[str, int] = {}
    out.write(b"\x80\x02")

    def put(key: str) -> None:
        memo[key] = len(memo)
        number = memo[key]
        out.write(b"q" + bytes((number,)) if number < 256 else b"r" + struct.pack("<I", number))

    def again(key: str) -> bool:
        if key not in memo:
            return False
        number = memo[key]
        out.write(b"h" + bytes((number,)) if number < 256 else b"j" + struct.pack("<I", number))
        return True

    def write(each: Any) -> None:
        if isinstance(each, _Global):
            key = f"{each.module} {each.name}"
            if not again(key):
                out.write(b"c" + each.module.encode() + b"\n" + each.name.encode() + b"\n")
                put(key)
        elif isinstance(each, _Call):
            write(each.function)
            write(each.arguments)
            out.write(b"R")
            put(f"call {len(memo)}")
        elif isinstance(each, _Stored):
            write(each.pid)
            out.write(b"Q")
        elif isinstance(each, dict):
            out.write(b"}")
            put(f"dict {len(memo)}")
            out.write(b"(")
            for name, item in each.items():
                write(name)
                write(item)
            out.write(b"u")
        elif isinstance(each, tuple):
            out.write(b"(")
            for item in each:
                write(item)
            out.write(b"t")
            put(f"tuple {len(memo)}")
        elif isinstance(each, str):
            if not again(f"str {each}"):
                raw = each.encode()
                out.write(b"X" + struct.pack("<I", len(raw)) + raw)
                put(f"str {each}")
        else:
            out.write(pickle.dumps(each, 2)[2:-1])

    write(value)
    out.write(b".")
    return out.getvalue()


def tensor(key: str, elements: int) -> _Call:
    """A one-dimensional float tensor over a whole storage."""
    stored = _Stored("storage", _Global("torch", "FloatStorage"), key, "cpu", elements)
    hooks = _Call(_Global("collections", "OrderedDict"), ())
    return _Call(_Global("torch._utils", "_rebuild_tensor_v2"), (stored, 0, (elements,), (1,), False, hooks))


class _Zip:
    """The zip that torch writes: stored records, data descriptors, aligned, zip64 at the end."""

    def __init__(self, out: BinaryIO, stem: str) -> None:
        self.out, self.stem = out, stem
        self.directory: list[bytes] = []

    def record(self, name: str, size: int, data: bytes | None, block: bytes = b"") -> None:
        """One record: `data`, or `block` over and over up to `size` bytes; a hole where both are empty."""
        where = self.out.tell()
        raw = f"{self.stem}/{name}".encode()
        start = where + 30 + len(raw)
        padding = -(start + 4) % ALIGNMENT
        self.out.write(struct.pack("<4s5H3L2H", b"PK\x03\x04", 0, 0x808, 0, 0, 0, 0, 0, 0, len(raw), 4 + padding))
        self.out.write(raw + struct.pack("<2sH", b"FB", padding) + b"Z" * padding)
        crc = 0
        if data is not None:
            self.out.write(data)
            crc = zlib.crc32(data)
        elif block:
            left = size
            while left:
                part = block[: min(len(block), left)]
                crc = _crc32(memoryview(part), crc)
                self.out.write(part)
                left -= len(part)
        else:
            crc = 0x12345678
            self.out.seek(size, os.SEEK_CUR)
        self.out.write(struct.pack("<4sLQQ", b"PK\x07\x08", crc, size, size))
        big = struct.pack("<HHQQQ", 1, 24, size, size, where)
        head = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 0, 0, 0, 0, 0x808, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF,
                           len(raw), len(big), 0, 0, 0, 0, 0xFFFFFFFF)  # fmt: skip
        self.directory.append(head + raw + big)

    def close(self) -> None:
        where = self.out.tell()
        for entry in self.directory:
            self.out.write(entry)
        size, count, at = self.out.tell() - where, len(self.directory), self.out.tell()
        self.out.write(struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, where))
        self.out.write(struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1))
        short = min(count, 0xFFFF)
        self.out.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, short, short, min(size, 0xFFFFFFFF), 0xFFFFFFFF, 0))


def write_torch(path: Path, value: Any, storages: dict[str, int], block: bytes) -> None:
    """A torch file with that pickle and float storages of so many elements (sparse where `block` is empty)."""
    with path.open("wb") as out:
        archive = _Zip(out, path.stem)
        _pickle(archive, opcodes(value))
        archive.record("byteorder", 6, b"little")
        for key, elements in storages.items():
            archive.record(f"data/{key}", elements * 4, None, block)
        archive.record("version", 2, b"3\n")
        archive.close()


def _pickle(archive: _Zip, data: bytes) -> None:
    archive.record("data.pkl", len(data), data)


def torch_save(path: Path, tensors: int, total: int) -> None:
    """`torch.save` of so many float tensors of `total` bytes."""
    elements = total // tensors // 4
    state = {f"layers.{number}.weight": tensor(str(number), elements) for number in range(tensors)}
    write_torch(path, state, {str(number): elements for number in range(tensors)}, os.urandom(1 << 20))


def sparse_zero(place: Path, ranks: int, bytes_each: int) -> Path:
    """A DeepSpeed ZeRO-3 step of `2 * ranks` sparse files."""
    step = place / "global_step1000"
    step.mkdir()
    elements = bytes_each // 4 // 4
    keys = {str(number): elements for number in range(4)}
    tensors = {f"part{key}": tensor(key, elements) for key in keys}
    for rank in range(ranks):
        model = {"module": tensors, "dp_world_size": ranks, "mp_world_size": 1, "global_steps": 1000}
        write_torch(step / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", model, keys, b"")
        optim = {"optimizer_state_dict": {"partition_count": ranks, "flat": tensors}}
        write_torch(step / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", optim, keys, b"")
    (place / "latest").write_text("global_step1000")
    return place


def distributed(place: Path, files: int, items: int) -> Path:
    """A step of torch DCP: so many files of so many items each, and the `.metadata` of them."""
    step = place / "step_10"
    step.mkdir()
    item = _item()
    made = _classes()
    tensors: dict[str, Any] = {}
    stored: dict[Any, Any] = {}
    for number in range(files):
        name = f"__{number}_0.distcp"
        with (step / name).open("wb") as out:
            for index in range(items):
                key = f"model.layers.{number * items + index}.self_attn.q_proj.weight"
                chunk = made["ChunkStorageMetadata"](offsets=made["Size"]((0,)), sizes=made["Size"]((256,)))
                tensors[key] = made["TensorStorageMetadata"](size=made["Size"]((256,)), chunks=[chunk])
                where = made["_StorageInfo"](relative_path=name, offset=index * len(item), length=len(item))
                stored[made["MetadataIndex"](fqn=key, offset=made["Size"]((0,)), index=0)] = where
                out.write(item)
    value = made["Metadata"](
        state_dict_metadata=tensors, planner_data={key: (key,) for key in tensors}, storage_data=stored
    )
    (step / ".metadata").write_bytes(_pickled(value, made))
    return place


def _item() -> bytes:
    out = io.BytesIO()
    archive = _Zip(out, "archive")
    _pickle(archive, opcodes(tensor("0", 256)))
    archive.record("data/0", 1024, bytes(range(256)) * 4)
    archive.record("version", 2, b"3\n")
    archive.close()
    return out.getvalue()


MODULES = {
    "torch": ("Size",),
    "torch.distributed.checkpoint.metadata": (
        "Metadata",
        "MetadataIndex",
        "TensorStorageMetadata",
        "ChunkStorageMetadata",
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
}


def _classes() -> dict[str, Any]:
    """Stand-ins for torch's classes that pickle as those do."""

    def fill(self: Any, **state: Any) -> None:
        self.__dict__.update(state)

    made: dict[str, Any] = {}
    for module, names in MODULES.items():
        for name in names:
            if name == "Size":
                body: dict[str, Any] = {"__reduce__": lambda self: (type(self), (tuple(self),))}
                made[name] = type(name, (tuple,), {**body, "__module__": module})
            else:
                made[name] = type(name, (), {"__init__": fill, "__module__": module})
    return made


def _pickled(value: Any, made: dict[str, Any]) -> bytes:
    """The pickle of stand-ins, under the names of the real modules."""
    known = {
        module: sys.modules.get(module) for module in (*MODULES, "torch.distributed", "torch.distributed.checkpoint")
    }
    try:
        for module in known:
            sys.modules[module] = types.ModuleType(module)
            for name in MODULES.get(module, ()):
                setattr(sys.modules[module], name, made[name])
        return pickle.dumps(value, 4)
    finally:
        for module, before in known.items():
            if before is None:
                del sys.modules[module]
            else:
                sys.modules[module] = before
