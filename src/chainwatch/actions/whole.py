"""Files that appear or change as a whole: whoever reads meanwhile sees the old or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace the file by a rename, on disk before it returns. Raises OSError; then the old file stands, alone."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".chainwatch-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
