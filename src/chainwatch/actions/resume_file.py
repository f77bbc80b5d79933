"""The file behind CHAINWATCH_RESUME_FILE: its path is fixed, its content is rewritten until the job starts."""

from __future__ import annotations

import os
from pathlib import Path

from chainwatch.actions import whole


def path_of(state: Path, chain: str) -> Path:
    """Where the resume file of a chain stands."""
    return state / "resume" / chain


def write(path: Path, checkpoint: str | None) -> bool:
    """Make the file hold this checkpoint's path (an empty file: start fresh). True if it was changed.

    Replaced as a whole: a job that starts in between reads the old or the new one, never half of it.
    """
    content = os.fsencode(f"{checkpoint}\n") if checkpoint else b""
    try:
        if path.read_bytes() == content:
            return False
    except OSError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole.write(path, content)
    return True
