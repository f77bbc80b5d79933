"""NaN and infinite values in the tensors of a checkpoint, counted tensor by tensor.

Types come from what the files declare: pickle opcodes, headers, indexes. Data are streamed; nothing is loaded, and
nothing is unpickled. Tensors whose encoding is not read here (compressed HDF5 chunks, quantised types) are listed with
a note instead of a number.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, Dict, Iterable, Iterator, NamedTuple, Optional

from chainwatch.checkpoints.files import kind_of
from chainwatch.checkpoints.files.base import Broken, Reader, fault_of_error, printable
from chainwatch.checkpoints.files.values import Floats, count, floats_of
from chainwatch.checkpoints.seal import files_of

if TYPE_CHECKING:
    from chainwatch.checkpoints.files.hdf5_objects import Dataset

MAX_INFLATED = 64 << 30


class TensorCount(NamedTuple):
    """One tensor with what is special in it."""

    file: str
    """Relative to the checkpoint."""
    name: str
    dtype: str
    values: int
    nan: int
    infinite: int
    note: str = ""
    """Why it could not be counted; empty where it was."""


class _Slab(NamedTuple):
    """The bytes of one tensor."""

    name: str
    dtype: str
    blocks: Callable[[], Iterable[memoryview]]
    little: bool = True
    note: str = ""


def count_nans(path: str, progress: Optional[Callable[[int], None]] = None) -> Iterator[TensorCount]:
    """Every floating point tensor of the checkpoint at `path` (directory, file or prefix), counted.

    Integer tensors are left out. A file that cannot be read yields one entry with a note.
    """
    root, names = files_of(path)
    for name in names:
        try:
            with Reader(os.path.join(root, name), progress) as reader:
                yield from _file(root, name, reader)
        except Broken as broken:
            yield _noted(name, broken.fault.found)
        except OSError as error:
            yield _noted(name, fault_of_error(error, os.path.join(root, name)).found)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, MemoryError) as error:
            yield _noted(name, f"{type(error).__name__} in its structure")


def _noted(name: str, note: str) -> TensorCount:
    return TensorCount(printable(name), "", "", 0, 0, 0, note)


def _file(root: str, name: str, reader: Reader) -> Iterator[TensorCount]:
    if reader.size == 0:
        return
    head = reader.read(0, min(16, reader.size))
    kind = kind_of(reader.name, head)
    if name.endswith(".distcp"):
        kind = "distcp"
    if kind == "raw" and "." not in reader.name and 0x80 < head[0] < 0x90:
        kind = "msgpack"  # Flax's `checkpoint_<step>` has no ending
    if name.endswith(".index") and kind == "tf_index":
        slabs: Iterator[_Slab] = _tf(root, name, reader)
    elif reader.name in (".zarray", "zarr.json"):
        slabs = _zarr(root, name, reader)
    elif reader.name == "manifest.ocdbt":
        # Each process has a database of its own beside the merged one, which refers to the same values.
        slabs = iter(()) if "ocdbt.process_" in name else _ocdbt(root, name, reader)
    else:
        found = _KINDS.get(kind)
        if found is None:
            return
        slabs = found(reader)
    for slab in slabs:
        floats: Optional[Floats] = floats_of(slab.dtype)
        if floats is None:
            continue
        if slab.note:
            yield TensorCount(printable(name), slab.name, slab.dtype, 0, 0, 0, slab.note)
            continue
        counts = count(slab.blocks(), floats, slab.little)
        yield TensorCount(printable(name), slab.name, slab.dtype, counts.values, counts.nan, counts.infinite)


def _range(reader: Reader, start: int, length: int) -> Callable[[], Iterable[memoryview]]:
    return lambda: reader.blocks(start, length)


def _npz(reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.npz import arrays

    for each in arrays(reader):
        header = each.header
        if header.size is None:
            continue
        if each.record is not None and each.record.method != 0:
            packed = _inflated(reader, each.start, each.record.compressed, header.data)
            yield _Slab(each.name, header.descr, packed, header.little)
        else:
            yield _Slab(each.name, header.descr, _range(reader, each.start, header.size), header.little)


def _inflated(reader: Reader, start: int, length: int, skip: int) -> Callable[[], Iterable[memoryview]]:
    def blocks() -> Iterator[memoryview]:
        import zlib

        machine = zlib.decompressobj(-15)
        left, total = skip, 0
        for block in reader.blocks(start, length):
            pending = bytes(block)
            while pending and not machine.eof:
                try:
                    data = machine.decompress(pending, 1 << 20)
                except zlib.error:
                    raise Broken("structure", "a deflated member", "one that does not inflate") from None
                pending = machine.unconsumed_tail
                total += len(data)
                if total > MAX_INFLATED:
                    raise Broken("limit", f"at most {MAX_INFLATED:,} bytes inflated", "more")
                yield memoryview(data)[left:]
                left = max(0, left - len(data))

    return blocks


def _msgpack(reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.msgpack import arrays

    for each in arrays(reader):
        yield _Slab(each.name, each.dtype, _range(reader, each.offset, each.size))


def _hdf5(reader: Reader) -> Iterator[_Slab]:
    yield from _hdf5_within(reader, 0, reader.size)


def _hdf5_within(reader: Reader, start: int, size: int) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.hdf5 import examine

    def read(offset: int, length: int) -> bytes:
        return reader.read(start + offset, length)

    for each in examine(read, size)[0]:
        yield _Slab(each.name, each.dtype, _chunks(reader, start, each), each.little, _undecodable(each))


def _undecodable(dataset: Dataset) -> str:
    from chainwatch.checkpoints.files.hdf5_data import MAX_DECODED
    from chainwatch.checkpoints.files.hdf5_filters import KNOWN

    if set(dataset.filters) - KNOWN:
        return "compressed in a way that is not read here"
    if dataset.filters and any(chunk.length > MAX_DECODED for chunk in dataset.chunks):
        return "chunks that are too large to decode"
    return ""


def _chunks(reader: Reader, start: int, dataset: Dataset) -> Callable[[], Iterable[memoryview]]:
    def blocks() -> Iterator[memoryview]:
        from chainwatch.checkpoints.files.hdf5_filters import decode

        for chunk in dataset.chunks:
            stored = reader.blocks(start + chunk.offset, chunk.length)
            if not dataset.filters:
                yield from stored
                continue
            size = chunk.size or chunk.length
            packed = b"".join(bytes(block) for block in stored)
            whole = decode(packed, dataset.filters, chunk.mask, size, dataset.width, dataset.name)
            yield memoryview(whole.data or b"")

    return blocks


def _keras(reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.zips import STORED, read_zip

    for record in read_zip(reader).records:
        if record.name.endswith(".h5") and record.method == STORED:
            yield from _hdf5_within(reader, record.start, record.size)


def _tf(root: str, name: str, index: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.tf_index import DTYPES, read

    bundle = read(index)
    prefix = name[: -len(".index")]
    for shard in range(bundle.shards):
        path = os.path.join(root, f"{prefix}.data-{shard:05d}-of-{bundle.shards:05d}")
        with Reader(path, index.progress) as data:
            for each in bundle.tensors:
                if each.shard == shard and each.size:
                    yield _Slab(each.name, DTYPES.get(each.dtype, ""), _range(data, each.offset, each.size))


def _zarr(root: str, name: str, reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.zarr import parse

    grid = parse(reader.read(0, reader.size))
    if grid is None:
        return
    array = name.rpartition("/")[0]
    note = "" if grid.codec in ("none", "zstd") and grid.total < 1_000_000 else f"encoded as {grid.codec}"

    def blocks() -> Iterator[memoryview]:
        from chainwatch.checkpoints.files import zstd

        for chunk in grid.names():
            path = os.path.join(root, array, chunk)
            if not os.path.exists(path):
                continue
            with Reader(path, reader.progress) as data:
                stream: Iterable[memoryview] = data.blocks(0, data.size)
                if grid.codec == "zstd":
                    stream = (memoryview(part) for part in zstd.stream(stream, MAX_INFLATED))
                yield from stream

    yield _Slab(array, grid.dtype, blocks, not grid.dtype.startswith(">"), note)


def _torch(reader: Reader) -> Iterator[_Slab]:
    """Storages of a torch.save zip, named after the first tensor that refers to each."""
    yield from _torch_zip(reader, 0, reader.size, "")


def _torch_zip(reader: Reader, start: int, end: int, item: str) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.opcodes import walk
    from chainwatch.checkpoints.files.torch_names import named_storages
    from chainwatch.checkpoints.files.zips import STORED, read_zip

    named = read_zip(reader, start, end).named()
    for pickle in [name for name in named if name == "data.pkl" or name.endswith("/data.pkl")]:
        record = named[pickle]
        walked = walk(reader, record.start, record.start + record.size)
        for key, (name, dtype) in named_storages(walked.value, walked.refs).items():
            held = named.get(f"{pickle[: -len('data.pkl')]}data/{key}")
            if held is not None and held.method == STORED:
                yield _Slab(item + name, dtype, _range(reader, held.start, held.size))


def _torch_legacy(reader: Reader) -> Iterator[_Slab]:
    """Storages of a legacy file lie behind the pickles, each behind its number of elements."""
    from chainwatch.checkpoints.files.opcodes import walk
    from chainwatch.checkpoints.files.torch_content import storages
    from chainwatch.checkpoints.files.torch_names import named_storages

    where = 0
    for _ in range(3):
        where = walk(reader, where, reader.size).end
    body = walk(reader, where, reader.size)
    keys = walk(reader, body.end, reader.size)
    known, named = storages(body.refs), named_storages(body.value, body.refs)
    where = keys.end
    for key in keys.value if isinstance(keys.value, list) else ():
        size = known[key].size
        if size is None:
            return
        name, dtype = named.get(key, (str(key), known[key].type))
        yield _Slab(name, dtype, _range(reader, where + 8, size))
        where += 8 + size


def _distcp(reader: Reader) -> Iterator[_Slab]:
    """Items of a distributed checkpoint: torch zips one behind the other, or one safetensors file."""
    if reader.read(0, 4) != b"PK\x03\x04":
        yield from _safetensors(reader)
        return
    from chainwatch.checkpoints.files.zips import start_of_zip

    bounds = []
    end = reader.size
    while end > 0:
        start = start_of_zip(reader, end)
        bounds.append((start, end))
        end = start
    for number, (start, end) in enumerate(reversed(bounds)):
        yield from _torch_zip(reader, start, end, f"item {number}")


def _safetensors(reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files.safetensors import read_header

    header, start = read_header(reader)
    for name, value in header.items():
        if name != "__metadata__":
            first, last = value["data_offsets"]
            yield _Slab(name, str(value["dtype"]), _range(reader, start + first, last - first))


def _ocdbt(root: str, name: str, reader: Reader) -> Iterator[_Slab]:
    from chainwatch.checkpoints.files import ocdbt, zarr, zstd

    body = ocdbt.payload(reader.read(0, reader.size), ocdbt.MANIFEST)
    if body is None:
        raise Broken("unchecked", "a zstd decoder", "no zstd decoder is installed here")
    where = os.path.join(root, os.path.dirname(name))

    def read(span: ocdbt.Span) -> bytes:
        if os.path.isabs(span.file) or ".." in span.file.split("/"):
            raise Broken("structure", "data files below the manifest", "others")
        with Reader(os.path.join(where, span.file)) as data:
            return data.read(span.offset, span.length)

    entries = ocdbt.entries(read, ocdbt.manifest(body), lambda span: None)
    grids = {}
    for entry in entries:
        array, _, last = entry.key.decode("utf-8", "surrogateescape").rpartition("/")
        if last in (".zarray", "zarr.json"):
            grid = zarr.parse(entry.value if entry.span is None else read(entry.span))
            if grid is not None:
                grids[array] = grid
    held: Dict[str, "list[ocdbt.Entry]"] = {array: [] for array in grids}
    for entry in entries:
        key = entry.key.decode("utf-8", "surrogateescape")
        owner = key.rpartition("/")[0]
        while owner and owner not in grids:
            owner = owner.rpartition("/")[0]
        if owner and not key.endswith((".zarray", "zarr.json")):
            held[owner].append(entry)
    for array, grid in grids.items():

        def blocks(chunks: "list[ocdbt.Entry]" = held[array], codec: str = grid.codec) -> Iterator[memoryview]:
            for entry in chunks:
                raw = memoryview(entry.value if entry.span is None else read(entry.span))
                if reader.progress is not None:
                    reader.progress(len(raw))
                if codec == "zstd":
                    for part in zstd.stream([raw], MAX_INFLATED):
                        yield memoryview(part)
                else:
                    yield raw

        note = "" if grid.codec in ("none", "zstd") else f"encoded as {grid.codec}"
        yield _Slab(array, grid.dtype, blocks, not grid.dtype.startswith(">"), note)


_KINDS: Dict[str, Callable[[Reader], Iterator[_Slab]]] = {
    "npz": _npz,
    "npy": _npz,
    "msgpack": _msgpack,
    "hdf5": _hdf5,
    "keras": _keras,
    "safetensors": _safetensors,
    "torch": _torch,
    "zip": _torch,
    "torch_legacy": _torch_legacy,
    "distcp": _distcp,
}
