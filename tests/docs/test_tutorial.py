"""The tutorial's run is one: it trains, saves, is cut and goes on, as the page says. (Slurm's part of it is tested
elsewhere.)"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chainwatch.checkpoints import newest_intact, verify
from chainwatch.cli.__main__ import main
from chainwatch.model.checkpoint import Status

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


def test_the_run_of_the_tutorial_saves_is_cut_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(block("python").replace("time.sleep(0.1)", "time.sleep(0)"))
    Path("train.sbatch").write_text(block("bash"))
    Path("toy.yaml").write_text(block("yaml"))

    def train(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-u", "train.py", *arguments], capture_output=True, text=True, check=False
        )

    assert train().stdout.endswith("training complete\n")
    newest = max(Path("ckpt").iterdir(), key=lambda path: int(re.findall(r"\d+", path.name)[0]))
    with newest.open("r+b") as file:
        file.truncate(1000)
    judged = {Path(one.path).name: one.status for one in verify(str(tmp_path / "ckpt"), settle=0).checkpoints}
    assert judged.pop(newest.name) is not Status.INTACT
    assert set(judged.values()) == {Status.INTACT}
    intact = newest_intact(str(tmp_path / "ckpt"))
    assert intact is not None
    assert intact.step == 550
    Path("crash").touch()
    died = train(intact.path)
    assert (died.returncode, died.stdout.splitlines()[0].split()[1]) == (1, "551/600")
    assert "NCCL error" in died.stderr
    assert main(["lint", "train.sbatch"]) == 0
    assert main(["check", "toy.yaml"]) == 0
