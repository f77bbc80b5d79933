"""An OCDBT database in a checkpoint: its tree, its data files, and the zarr arrays that are stored in it.

Everything is said through `Look`; names are relative to the checkpoint.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.files import ocdbt, zarr
from chainwatch.checkpoints.files.base import Broken, Fault, Reader, grouped, printable
from chainwatch.checkpoints.formats.base import Folder, Look
from chainwatch.checkpoints.formats.tensorstore import HOSTILE, MANIFEST, MAX_CHUNKS, ZARR_FILES, Arrays, absent

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Set, Tuple

WALKED_VALUES = 20_000
"""Values of one database that a quick check walks from zstd block to zstd block; of more, the last of each file."""


def judge_ocdbt(look: Look, prefix: str, store_all: bool = True) -> Optional[Arrays]:
    """The database in directory `prefix` (empty, or ending in "/"), and the one of each process below it.

    Returns:
        The arrays that it holds, or None where it could not be read.
    """
    folder = look.candidate.root.sub(prefix.rstrip("/")) if prefix else look.candidate.root
    names = [name for name in _all_below(folder, prefix, 0) if len(name) < 4096]
    found: Optional[Arrays] = look.once(f"ocdbt {store_all}", names, lambda: _judge(look, folder, prefix, store_all))
    return found


def _all_below(folder: Folder, prefix: str, depth: int) -> Iterator[str]:
    """The manifest and the data files of the database, and of those of the processes."""
    yield from (prefix + name for name in folder.files if depth or name == MANIFEST)
    for name in folder.dirs:
        if name == "d" or name.startswith("ocdbt.process_"):
            yield from _all_below(folder.sub(name), f"{prefix}{name}/", depth + 1)


def _judge(look: Look, folder: Folder, prefix: str, store_all: bool) -> Optional[Arrays]:
    found = _Database(look, prefix, store_all).judge()
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
