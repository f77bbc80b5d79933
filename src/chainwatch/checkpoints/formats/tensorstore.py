"""Arrays that tensorstore wrote into a checkpoint (Orbax, levanter, axlearn, Flax): OCDBT databases and zarr trees.

Shared by their layouts. Everything is said through `Look`; names are relative to the checkpoint.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from chainwatch.checkpoints.files import ocdbt, zarr
from chainwatch.checkpoints.files.base import Broken, Fault, Reader, grouped, printable
from chainwatch.checkpoints.formats.base import Folder, Look

MANIFEST = "manifest.ocdbt"
MAX_CHUNKS = 2_000_000
WALKED_VALUES = 20_000
"""Values of one database that a quick check walks from zstd block to zstd block; of more, the last of each file."""
_CHUNK = re.compile(r"^(?:\d+\.)*\d+$|^c$")
"""Names of chunks in a directory of their own."""
ZARR_FILES = (".zarray", "zarr.json")
HOSTILE = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, MemoryError, RecursionError)


class Arrays(NamedTuple):
    """What was found of arrays."""

    names: Set[str]
    """Dotted or slashed names, as the directory or the database has them."""
    grids: Dict[str, zarr.Grid]


def load_json(look: Look, name: str) -> Optional[Any]:
    """The JSON in a file whose name does not say so; its fault is said where it does not parse."""
    reader = look.opened(name)
    if reader is None:
        return None
    with reader:
        try:
            if reader.size == 0:
                raise Broken("empty", "JSON", "0 bytes")
            data = reader.read(0, reader.size)
            return json.loads(data)
        except Broken as broken:
            look.fault(name, broken.fault)
        except (ValueError, RecursionError) as error:
            found = "NUL bytes" if b"\0" in data else f"text that ends or breaks at {getattr(error, 'pos', 0):,}"
            look.fault(name, Fault("truncated", "JSON", found))
    return None


# -- OCDBT ------------------------------------------------------------------------------------------------------------


def judge_ocdbt(look: Look, prefix: str, store_all: bool = True) -> Optional[Arrays]:
    """The database in directory `prefix` (empty, or ending in "/"), and the one of each process below it.

    Returns:
        The arrays that it holds, or None where it could not be read.
    """
    found = _Database(look, prefix, store_all).judge()
    folder = look.candidate.root.sub(prefix.rstrip("/")) if prefix else look.candidate.root
    for name in folder.dirs:
        if name.startswith("ocdbt.process_"):
            below = f"{prefix}{name}/"
            if MANIFEST in folder.sub(name):
                _Database(look, below, store_all, values=False).judge()
            elif found is None:
                look.missing(below + MANIFEST)
    return found


class _Database:
    def __init__(self, look: Look, prefix: str, store_all: bool, values: bool = True) -> None:
        self.look = look
        self.prefix = prefix
        self.store_all = store_all
        self.values = values
        """False where only the tree is checked: another database has the same values."""
        self.extents: Dict[str, int] = {}
        self.broken: Set[str] = set()
        self.readers: Dict[str, Optional[Reader]] = {}

    def judge(self) -> Optional[Arrays]:
        try:
            root = self._manifest()
            if root is None:
                return None
            return self._tree(root)
        finally:
            for reader in self.readers.values():
                if reader is not None:
                    reader.close()

    def _manifest(self) -> Optional[ocdbt.Manifest]:
        """The newest version, from `manifest.ocdbt` or the last numbered one; None where it is broken or packed."""
        name = self.prefix + MANIFEST
        manifest = self._read_manifest(name)
        if manifest is None or not manifest.numbered:
            return manifest
        folder = self.look.candidate.root.sub(self.prefix.rstrip("/")) if self.prefix else self.look.candidate.root
        numbered = [each for each in folder.files if each.startswith("manifest.") and len(each) == 25]
        if not numbered:
            self.look.missing(self.prefix + "manifest.<number>", "a numbered manifest")
            return None
        return self._read_manifest(self.prefix + max(numbered))

    def _read_manifest(self, name: str) -> Optional[ocdbt.Manifest]:
        reader = self.look.opened(name)
        if reader is None:
            return None
        with reader:
            try:
                if reader.size == 0:
                    raise Broken("empty", "an OCDBT manifest", "0 bytes")
                body = ocdbt.payload(reader.read(0, reader.size), ocdbt.MANIFEST)
                if body is None:
                    self._walk_files()
                    return None
                return ocdbt.manifest(body)
            except Broken as broken:
                self.look.fault(name, broken.fault)
            except HOSTILE as error:
                self.look.fault(name, Fault("structure", "an OCDBT manifest", type(error).__name__))
        return None

    def _walk_files(self) -> None:
        """Without a zstd decoder the tree cannot be read: each data file is walked frame by frame instead."""
        self.look.warn(
            "not every missing file can be seen: no zstd decoder is installed here, data files were walked one by one"
        )
        root = self.look.candidate.root.sub(self.prefix.rstrip("/")) if self.prefix else self.look.candidate.root
        for name in root.sub("d").files if "d" in root else ():
            reader = self.look.opened(f"{self.prefix}d/{name}")
            if reader is None:
                continue
            with reader:
                try:
                    if reader.size == 0:
                        raise Broken("empty", "data", "0 bytes")
                    ocdbt.walk(reader, self.look.deep)
                except Broken as broken:
                    self.look.fault(f"{self.prefix}d/{name}", broken.fault)

    def _tree(self, root: ocdbt.Manifest) -> Optional[Arrays]:
        entries: List[ocdbt.Entry] = []
        try:
            for span in root.history:
                self._seen(span)
                ocdbt.payload(self._fetch(span), ocdbt.BTREE)
            entries = ocdbt.entries(self._fetch, root, self._seen)
        except Broken as broken:
            self._broken(broken)
            return None
        except HOSTILE as error:
            self.look.problem(self.prefix + MANIFEST, "structure", "a readable B+tree", type(error).__name__)
            return None
        for file, extent in self.extents.items():
            reader = self._reader(file)
            if reader is not None and reader.size < extent:
                self._say(
                    file,
                    Fault(
                        "truncated" if reader.size else "empty",
                        f"{grouped(extent)} bytes, as the B+tree says",
                        f"{grouped(reader.size)} bytes",
                    ),
                )
        return self._arrays(entries)

    def _arrays(self, entries: List[ocdbt.Entry]) -> Arrays:
        """Group the keys by array: each must have its metadata and all of its chunks, each of them whole."""
        arrays: Dict[str, Tuple[zarr.Grid, str]] = {}
        for entry in entries:
            key = entry.key.decode("utf-8", "surrogateescape")
            parent, _, last = key.rpartition("/")
            if last in ZARR_FILES:
                try:
                    text = entry.value if entry.span is None else self._fetch(entry.span)
                    grid = zarr.parse(text)
                except Broken as broken:
                    self.look.fault(self.prefix + MANIFEST, broken.fault._replace(expected=f"metadata of {key}"))
                    continue
                if grid is not None:
                    arrays[parent] = (grid, last)
        chunks = self._chunks(entries, arrays)
        if self.values:
            self._complete(arrays, chunks)
        grids = {name: grid for name, (grid, _) in arrays.items()}
        return Arrays({name.replace("/", ".") for name in arrays} | set(arrays), grids)

    def _chunks(self, entries: List[ocdbt.Entry], arrays: Dict[str, Tuple[zarr.Grid, str]]) -> Dict[str, Set[str]]:
        """Which chunks each array has; each value's frame is checked on the way."""
        present: Dict[str, Set[str]] = {}
        placed: List[Tuple[ocdbt.Span, zarr.Grid, str]] = []
        for entry in entries:
            key = entry.key.decode("utf-8", "surrogateescape")
            name = _array_of(key, arrays)
            if name is None or key.rpartition("/")[2] in ZARR_FILES:
                continue
            present.setdefault(name, set()).add(key[len(name) + 1 :] if name else key)
            if entry.span is not None:
                placed.append((entry.span, arrays[name][0], key))
        if self.values:
            self._values(placed)
        return present

    def _values(self, placed: List[Tuple[ocdbt.Span, zarr.Grid, str]]) -> None:
        """The frames of the values that lie in data files: all of them when deep (or few), else the last in each."""
        if not self.look.deep and len(placed) > WALKED_VALUES:
            last: Dict[str, Tuple[ocdbt.Span, zarr.Grid, str]] = {}
            for one in placed:
                if one[0].file not in last or last[one[0].file][0].offset < one[0].offset:
                    last[one[0].file] = one
            placed = list(last.values())
        for span, grid, key in placed:
            if span.file in self.broken:
                continue
            reader = self._reader(span.file)
            if reader is None or span.offset + span.length > reader.size:
                continue
            try:
                zarr.check_chunk(reader.read, reader.blocks, span.offset, span.length, grid, self.look.deep)
            except Broken as broken:
                fault = broken.fault
                self._say(span.file, fault._replace(found=f"{fault.found} ({printable(key)})"))
            except HOSTILE as error:
                self._say(span.file, Fault("structure", f"chunk {printable(key)}", type(error).__name__))

    def _complete(self, arrays: Dict[str, Tuple[zarr.Grid, str]], chunks: Dict[str, Set[str]]) -> None:
        budget = MAX_CHUNKS
        for name, (grid, _) in arrays.items():
            present = chunks.get(name, set())
            budget -= grid.total
            if budget < 0 or len(present) >= grid.total:
                continue
            lost = [each for each in grid.names() if each not in present]
            absent(self.look, self.prefix + MANIFEST, name, lost, grid.total, self.store_all)

    def _seen(self, span: ocdbt.Span) -> None:
        self.extents[span.file] = max(self.extents.get(span.file, 0), span.offset + span.length)

    def _reader(self, file: str) -> Optional[Reader]:
        if file not in self.readers:
            if len(self.readers) > 128:  # far below any limit on open files
                for name, reader in list(self.readers.items()):
                    if reader is not None:
                        reader.close()
                        del self.readers[name]
            if os.path.isabs(file) or ".." in file.split("/") or "\0" in file:
                self.broken.add(file)
                self.look.problem(self.prefix + MANIFEST, "structure", "data files below it", printable(file[:100]))
                self.readers[file] = None
            else:
                if file in self.broken:
                    return None
                self.readers[file] = self.look.opened(self.prefix + file)
                if self.readers[file] is None:
                    self._committed(file)
        return self.readers[file]

    def _committed(self, file: str) -> None:
        """A data file of a committed database that is gone is damage, not an unfinished save."""
        self.broken.add(file)
        last = self.look.problems[-1]
        if last.code == "missing":
            self.look.problems[-1] = last._replace(code="lost", expected="the data file, as the B+tree says")

    def _fetch(self, span: ocdbt.Span) -> bytes:
        if span.length > ocdbt.NODE_LIMIT:
            raise Broken("limit", f"nodes of at most {grouped(ocdbt.NODE_LIMIT)} bytes", grouped(span.length))
        reader = self._reader(span.file)
        if reader is None:
            raise _Said()
        try:
            return reader.read(span.offset, span.length)
        except Broken as broken:
            self._say(span.file, broken.fault)
            raise _Said() from None

    def _broken(self, broken: Broken) -> None:
        if isinstance(broken, _Said):
            return
        if broken.fault.code == "unchecked":
            self._walk_files()
        else:
            self.look.fault(self.prefix + MANIFEST, broken.fault)

    def _say(self, file: str, fault: Fault) -> None:
        if file not in self.broken:
            self.broken.add(file)
            self.look.fault(self.prefix + file, fault)


class _Said(Broken):
    """Raised where the fault has been said already."""

    def __init__(self) -> None:
        super().__init__("said", "", "")


def _array_of(key: str, arrays: Dict[str, Tuple[zarr.Grid, str]]) -> Optional[str]:
    """The array to which a key belongs: the longest known name that it begins with."""
    name = key
    while name:
        name = name.rpartition("/")[0]
        if name in arrays:
            return name
    return None


def absent(look: Look, file: str, array: str, lost: List[str], total: int, store_all: bool) -> None:
    """Chunks that are not there: damage where the writer stores every chunk, else zeros that were left out.

    tensorstore leaves out chunks that equal the fill value unless it is told otherwise; Orbax tells it so and records
    that in `_METADATA`, others do not.
    """
    if not lost:
        return
    title = f"chunk {lost[0]} of {array}" if len(lost) == 1 else f"{grouped(len(lost))} chunks of {array}"
    if store_all:
        look.problem(file, "lost", f"{grouped(total)} chunks of {array or 'the array'}", f"{title} not there")
    else:
        look.warn(f"{printable(title)} not stored: read back as zeros")


# -- zarr trees -------------------------------------------------------------------------------------------------------


def judge_zarr(look: Look, prefix: str, store_all: bool, skip: Tuple[str, ...] = ()) -> Arrays:
    """Every zarr array in or below directory `prefix` (empty, or ending in "/")."""
    root = look.candidate.root
    names: Set[str] = set()
    grids: Dict[str, zarr.Grid] = {}
    todo: List[Tuple[str, Folder]] = [(prefix, root.sub(prefix.rstrip("/")) if prefix else root)]
    visited = 0
    while todo:
        where, folder = todo.pop()
        visited += 1
        if visited > MAX_CHUNKS // 10:
            look.warn("more directories than were looked at")
            break
        meta = next((name for name in ZARR_FILES if name in folder), None)
        if meta is None:
            if not folder.dirs and any(_CHUNK.match(name) for name in folder.files):
                look.problem(where + ".zarray", "lost", "the metadata of these chunks", "not there")
            links = frozenset(folder.links)
            todo.extend((f"{where}{each}/", folder.sub(each)) for each in folder.dirs if each not in (*skip, *links))
            continue
        array = where[len(prefix) :].rstrip("/")
        names.add(array.replace("/", "."))
        names.add(array)
        grid = _judge_array(look, where, folder, meta, store_all)
        if grid is not None:
            grids[array] = grid
        elif meta == "zarr.json":
            todo.extend((f"{where}{each}/", folder.sub(each)) for each in folder.dirs)
    return Arrays(names, grids)


def _judge_array(look: Look, where: str, folder: Folder, meta: str, store_all: bool) -> Optional[zarr.Grid]:
    reader = look.opened(where + meta)
    if reader is None:
        return None
    with reader:
        try:
            if reader.size == 0:
                raise Broken("empty", "the metadata of a zarr array", "0 bytes")
            grid = zarr.parse(reader.read(0, reader.size))
        except Broken as broken:
            look.fault(where + meta, broken.fault)
            return None
    if grid is None:
        return None
    lost: List[str] = []
    if grid.total > MAX_CHUNKS:
        look.warn(f"{printable(where)}: {grouped(grid.total)} chunks are more than are looked at")
        return grid
    for name in grid.names():
        if "/" in name:
            there = os.path.lexists(os.path.join(folder.path, name))
        else:
            there = name in folder
        if there:
            _judge_chunk(look, where + name, grid)
        else:
            lost.append(name)
    witnessed = store_all or any(
        other.root.stat(where + name) is not None for name in lost[:1] for other in look.neighbours[:2]
    )
    if lost and witnessed:
        first = where + lost[0]
        look.problem(first, "lost", f"{grouped(grid.total)} chunks", f"{grouped(len(lost))} not there")
    elif lost:
        absent(look, where + meta, where.rstrip("/"), lost, grid.total, False)
    return grid


def _judge_chunk(look: Look, name: str, grid: zarr.Grid) -> None:
    reader = look.opened(name)
    if reader is None:
        return
    with reader:
        try:
            if reader.size == 0:
                raise Broken("empty", "a chunk", "0 bytes")
            zarr.check_chunk(reader.read, reader.blocks, 0, reader.size, grid, look.deep)
        except Broken as broken:
            look.fault(name, broken.fault)
        except HOSTILE as error:
            look.fault(name, Fault("structure", "a zarr chunk", type(error).__name__))
