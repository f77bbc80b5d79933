"""Batch scripts that chainwatch keeps: a pinned one, and one that was never a file (standard input, --wrap)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from chainwatch.actions import whole


def keep(state: Path, chain: str, text: bytes) -> Path:
    """A copy of this script in the state directory, named by chain and content, so that none is ever overwritten.

    Raises OSError.
    """
    folder = state / "scripts"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{chain}.{hashlib.sha256(text).hexdigest()[:12]}.sh"
    if not path.exists():
        whole.write(path, text)
    return path
