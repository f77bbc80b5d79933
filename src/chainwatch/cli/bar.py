"""A progress bar for reads of all bytes: how many, of how many, and how fast."""

from __future__ import annotations

import os
import sys
import time

from chainwatch.checkpoints.files.base import human


class Bar:
    """Bytes read so far and per second, on stderr."""

    WIDTH = 30

    def __init__(self, path: str, passes: int = 1) -> None:
        """`passes`: how often everything will be read."""
        self.clock = time.monotonic
        self.started = self.drawn = self.clock()
        self.total = passes * _bytes_below(path)
        self.done = 0

    def advance(self, count: int) -> None:
        """`count` more bytes were read; redrawn ten times a second."""
        self.done += count
        now = self.clock()
        if now - self.drawn < 0.1:
            return
        self.drawn = now
        share = min(1.0, self.done / self.total) if self.total else 0.0
        full = int(share * self.WIDTH)
        rate = human(self.done / max(now - self.started, 1e-6))
        bar = "#" * full + "." * (self.WIDTH - full)
        sys.stderr.write(f"\r[{bar}] {share:4.0%} {human(self.done)} of {human(self.total)}, {rate}/s\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave no trace."""
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _bytes_below(path: str, limit: int = 100_000) -> int:
    """Bytes of the file, or of the files below the directory, as far as `limit` entries."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            limit -= 1
            if limit < 0:
                return total
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
