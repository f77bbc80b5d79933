"""What is released works: the wheel installs into an environment of its own, and the program runs there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow(40)
@pytest.mark.timeout(300)
def test_the_wheel_runs_in_a_clean_environment(tmp_path: Path) -> None:
    pytest.importorskip("build", reason="the wheel is built where the dev extra is installed")
    run = {"check": True, "capture_output": True, "text": True, "timeout": 240}
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)], **run
    )  # type: ignore[call-overload]
    [wheel] = tmp_path.glob("chainwatch-*.whl")
    with zipfile.ZipFile(wheel) as built:
        names = built.namelist()
    assert "chainwatch/py.typed" in names
    assert any(n.startswith("chainwatch/signatures/data/") for n in names)
    assert any(n.startswith("chainwatch/store/migrations/") for n in names)
    assert not any(n.startswith(("tests/", "dev/")) for n in names)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    subprocess.run([home / "bin" / "pip", "install", "-q", "--disable-pip-version-check", str(wheel)], **run)  # type: ignore[call-overload]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "100"}
    chainwatch = str(home / "bin" / "chainwatch")

    def says(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [chainwatch, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    assert says("--version").stdout.startswith("chainwatch ")
    module = [home / "bin" / "python", "-m", "chainwatch", "--version"]
    assert subprocess.run(module, env=environment, cwd=tmp_path, **run).stdout == says("--version").stdout  # type: ignore[call-overload]
    assert "diagnose" in says("--help").stdout
    assert says("check", "--schema").returncode == 0
    (tmp_path / "job.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert "oom_gpu" in says("diagnose", "--log", "job.log", "--json").stdout
    assert says("latest", str(tmp_path / "no-run-yet")).returncode == 1
    status = says("status", "--state", "state")
    assert status.returncode == 2
    assert "Traceback" not in status.stderr
