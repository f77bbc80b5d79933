"""Real checkpoints: written by the real libraries, some damaged by killed saves or by hand (`data/CASES.tsv`)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def cases() -> Iterator[Path]:
    """The unpacked case files, readable by other users; modes, holes, links and mtimes as in the archive."""
    root = Path(tempfile.mkdtemp(prefix="chainwatch-cases-"))
    root.chmod(0o755)
    subprocess.run(["tar", "-C", str(root), "-xpf", str(DATA / "cases.tar.gz")], check=True)
    yield root
    subprocess.run(["chmod", "-R", "u+rwX", str(root)], check=False)
    shutil.rmtree(root)
