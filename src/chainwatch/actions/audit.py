"""The append-only log of everything that chainwatch changed on a cluster or on disk."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any


class Audit:
    """One JSON object a line, in `audit.log` of the state directory (mode 0600), written before the effect."""

    def __init__(self, state: Path) -> None:
        self._path = state / "audit.log"

    def note(self, now: datetime, effect: str, chain: str | None, **facts: Any) -> None:
        """Append one line and force it to disk. Raises OSError: what cannot be audited must not be done."""
        line = json.dumps({"at": now.isoformat(), "effect": effect, "chain": chain, **facts}, default=str)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
