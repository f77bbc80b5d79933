"""`heartbeat(step=…)`: cheap, quiet, never in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainwatch.job import beat, heartbeat
from chainwatch.job.records import oom_kills


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beat, "_last", float("-inf"))
    monkeypatch.setattr(beat, "_phase", None)


def test_it_says_step_loss_and_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINWATCH_HEARTBEAT", str(tmp_path / "sub" / "beat.json"))
    heartbeat(step=7, total=100, loss=float("nan"))
    said = json.loads((tmp_path / "sub" / "beat.json").read_text())
    assert (said["step"], said["total"], said["phase"]) == (7, 100, "training")
    assert said["loss"] != said["loss"]


def test_it_writes_seldom_but_a_new_phase_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "beat.json"
    monkeypatch.setenv("CHAINWATCH_HEARTBEAT", str(path))
    heartbeat(step=1)
    heartbeat(step=2)
    assert json.loads(path.read_text())["step"] == 1
    heartbeat(step=3, phase="saving")
    assert json.loads(path.read_text())["phase"] == "saving"


def test_it_never_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CHAINWATCH_HEARTBEAT", str(tmp_path / "file" / "beat.json"))
    heartbeat(step=1)
    monkeypatch.delenv("CHAINWATCH_HEARTBEAT")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    heartbeat(step=object(), phase="odd")  # type: ignore[arg-type]


def test_kills_for_memory_are_counted_up_to_the_group_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/slurm/job_7/step_0/user/task_0\n")
    job = tmp_path / "groups" / "slurm" / "job_7"
    (job / "step_0" / "user" / "task_0").mkdir(parents=True)
    (job / "memory.events").write_text("low 0\nhigh 3\noom 1\noom_kill 2\n")
    (job / "step_0" / "memory.events").write_text("oom_kill 1\n")
    (tmp_path / "groups" / "slurm" / "memory.events").write_text("oom_kill 99\n")
    assert oom_kills(str(tmp_path), str(tmp_path / "groups")) == 2
    assert oom_kills(str(tmp_path / "nowhere"), "") is None
