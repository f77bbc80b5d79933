"""The file behind CHAINWATCH_RESUME_FILE: its path is fixed, its content is rewritten until the job starts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def path_of(state: Path, chain: str) -> Path:
    """Where the resume file of a chain stands."""
    return state / "resume" / chain


def write(path: Path, checkpoint: str | None) -> bool:
    """Make the file hold this checkpoint's path (an empty file: start fresh). True if it was changed.

    Replaced as a whole: a job that starts in between reads the old or the new one, never half of it.
    """
    content = f"{checkpoint}\n" if checkpoint else ""
    try:
        if path.read_text(errors="surrogateescape") == content:
            return False
    except OSError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "w", errors="surrogateescape") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    return True
