"""Checksums of streams, with the fastest library that is there, and on two cores.

Measured on a warm 2 GB file: isal's CRC-32 runs near the speed of reading, zlib's at a fourth of it; the bare Python
CRC-32C at the end is for compute nodes that have no package for it (some 5 MB/s).
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterable, List, Optional, Sequence, TypeVar

from chainwatch.checkpoints.files.base import Broken

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2
"""Enough to be bound by the disk; a login node is shared."""


def crc32(blocks: Iterable[memoryview]) -> int:
    """CRC-32 (zip, zlib) of a stream."""
    update = _crc32_function()
    value = 0
    for block in blocks:
        value = update(block, value)
    return value


def crc32_combine() -> Optional[Callable[[int, int, int], int]]:
    """The function (CRC of a, CRC of b, bytes of b) -> CRC of a + b, None where no library has it."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    found: Optional[Callable[[int, int, int], int]] = getattr(isal_zlib, "crc32_combine", None)
    return found


def crc32c(blocks: Iterable[memoryview]) -> int:
    """CRC-32C (Castagnoli: TF, OCDBT) of a stream, unmasked."""
    update = _crc32c_function()
    value = 0
    for block in blocks:
        value = update(block, value)
    return value


def in_threads(work: Callable[[T], R], items: Sequence[T]) -> List[R]:
    """`[work(item) for item in items]`, on `THREADS` threads; the first error of any is raised."""
    if len(items) < 2:
        return [work(item) for item in items]
    results: List[Any] = [None] * len(items)
    errors: List[BaseException] = []
    lock = threading.Lock()
    todo = iter(range(len(items)))

    def run() -> None:
        while not errors:
            with lock:
                index = next(todo, None)
            if index is None:
                return
            try:
                results[index] = work(items[index])
            except (Broken, OSError, ValueError, MemoryError) as error:
                errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(min(THREADS, len(items)) - 1)]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


_functions: List[Optional[Callable[[memoryview, int], int]]] = [None, None]


def _crc32_function() -> Callable[[memoryview, int], int]:
    found = _functions[0]
    if found is None:
        try:
            from isal.isal_zlib import crc32 as found
        except ImportError:
            from zlib import crc32 as found
        _functions[0] = found
    assert found is not None
    return found


def _crc32c_function() -> Callable[[memoryview, int], int]:
    found = _functions[1]
    if found is None:
        try:
            from crc32c import crc32c as found
        except ImportError:
            found = _slow_crc32c
        _functions[1] = found
    assert found is not None
    return found


_table: List[int] = []


def _slow_crc32c(data: memoryview, value: int = 0) -> int:
    if not _table:
        for byte in range(256):
            entry = byte
            for _ in range(8):
                entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
            _table.append(entry)
    value ^= 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _table[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF
