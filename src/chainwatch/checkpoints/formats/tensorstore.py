"""Arrays that tensorstore wrote into a checkpoint as zarr trees (Orbax, levanter, axlearn, Flax).

Shared by their layouts. Everything is said through `Look`; names are relative to the checkpoint.
"""

from __future__ import annotations

import json
import os

from chainwatch.checkpoints.files import zarr
from chainwatch.checkpoints.files.base import Broken, Fault, grouped, printable
from chainwatch.checkpoints.formats.base import Folder, Look
from chainwatch.checkpoints.patterns import Pattern
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

MANIFEST = "manifest.ocdbt"
MAX_CHUNKS = 2_000_000
_CHUNK = Pattern(r"^(?:\d+\.)*\d+$|^c$")
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
    return look.once("json", (name,), lambda: _load_json(look, name))


def _load_json(look: Look, name: str) -> Optional[Any]:
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
    there: List[str] = []
    if grid.total > MAX_CHUNKS:
        look.warn(f"{printable(where)}: {grouped(grid.total)} chunks are more than are looked at")
        return grid
    for name in grid.names():
        if os.path.lexists(os.path.join(folder.path, name)) if "/" in name else name in folder:
            there.append(where + name)
        else:
            lost.append(name)
    look.once("zarr", (where + meta, *there), lambda: _judge_chunks(look, there, grid))
    witnessed = store_all or any(
        other.root.stat(where + name) is not None for name in lost[:1] for other in look.neighbours[:2]
    )
    if lost and witnessed:
        first = where + lost[0]
        look.problem(first, "lost", f"{grouped(grid.total)} chunks", f"{grouped(len(lost))} not there")
    elif lost:
        absent(look, where + meta, where.rstrip("/"), lost, grid.total, False)
    return grid


def _judge_chunks(look: Look, names: List[str], grid: zarr.Grid) -> None:
    for name in names:
        _judge_chunk(look, name, grid)


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
