"""A hint for formats without a checksum: data that was lost often reads as zeros to the end of the file.

No proof: a compressing file system keeps zeros as holes, and a model may end in zeros. So it is only ever a warning.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.files.base import Reader, grouped

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Optional

SAMPLES = 32
PIECE = 4096
SHARE = 0.125
"""Part of the data that must be zeros at its end to be spoken of."""
LEAST = 256


def lost_tail(reader: Reader, start: int, data_end: Optional[int] = None) -> Optional[str]:
    """A warning where the last part of `start`..end is zeros or a hole in the file, else None.

    `data_end`: where the data end, if other things lie behind them; zeros there alone are no hint.
    """
    size = reader.size - start
    if size < LEAST or any(reader.read(reader.size - min(PIECE, LEAST), min(PIECE, LEAST))):
        return None
    first = _zeros_from(reader, start)
    lost = reader.size - first
    if lost < max(LEAST, size * SHARE) or (data_end is not None and data_end - first < LEAST):
        return None
    what = "were never written (a hole in the file)" if _is_hole(reader, first) else "are zeros"
    return f"the last {grouped(lost)} of {grouped(reader.size)} bytes {what}; if they were lost, nothing else shows it"


def _zeros_from(reader: Reader, start: int) -> int:
    """The offset from which everything is zeros, as far as samples tell."""
    size = reader.size - start
    if size <= SAMPLES * PIECE:
        data = reader.read(start, size)
        return start + len(data.rstrip(b"\0"))
    step = size // SAMPLES
    first = reader.size
    while first - step >= start and not any(reader.read(first - step, PIECE)):
        first -= step
    return first


def _is_hole(reader: Reader, first: int) -> bool:
    try:
        hole = os.lseek(reader.fd, min(first + PIECE, reader.size - 1), os.SEEK_HOLE)
    except (OSError, AttributeError):
        return False
    return hole < reader.size
