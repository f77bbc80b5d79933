"""A task of a job in a directory of its own, and the oldest Python that is to be had."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chainwatch.job.bundle import write_bundle

ROOT = Path(__file__).parents[2]


class Task:
    """Runs `chainwatch exec` as one task of a job."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.run = home / "run"
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "SLURM_JOB_ID": "41",
            "SLURMD_NODENAME": "n01",
        }

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "chainwatch.cli", "exec", *words]

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words), env=self.environment, cwd=self.home, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
        )  # fmt: skip

    def exec(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words), env={**self.environment, **environment}, cwd=self.home, text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    def files(self, prefix: str) -> list[dict[str, Any]]:
        return [json.loads(p.read_text()) for p in sorted(self.home.glob(f".chainwatch/jobs/*/{prefix}*.json"))]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def _version(python: str) -> tuple[int, ...]:
    asked = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    return tuple(int(x) for x in asked.stdout.split()) if asked.returncode == 0 else ()


@pytest.fixture(scope="session")
def old_python() -> str:
    """The oldest interpreter from 3.8 on, below 3.11."""
    candidates: Sequence[str | None] = [
        os.environ.get("CHAINWATCH_OLD_PYTHON"),
        *(shutil.which(f"python3.{minor}") for minor in (8, 9, 10)),
        *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")),
    ]
    known = {python: _version(python) for python in candidates if python}
    fit = {python: version for python, version in known.items() if (3, 8) <= version < (3, 11)}
    if not fit:
        pytest.skip("THE JOB SIDE IS NOT TESTED WITH AN OLD PYTHON: none of 3.8, 3.9, 3.10 is installed")
    return min(fit, key=lambda python: fit[python])


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "chainwatch.pyz"
    write_bundle(str(path))
    return path
