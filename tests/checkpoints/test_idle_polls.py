"""What a look costs when nothing has happened: a few stats of the run directory and its newest step, and no read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import RunReport, verify
from chainwatch.checkpoints.cache import FindingCache
from chainwatch.checkpoints.idle import IdleReports

RUNS = (
    "good/deepspeed/zero2_fp32_w3",
    "good/hf_trainer/sharded",
    "good/dcp/w2",
    "good/megatron/torch_dist_w2",
    "good/orbax/manager_composite",
    "good/orbax/zarr_noocdbt",
    "good/tf/mgr",
    "good/keras/run",
    "good/torch_legacy",
    "good/lightning/single",
)
SMALL = ("latest", "checkpoint", "latest_checkpointed_iteration.txt")
"""Pointers: a few bytes, read each time."""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """The paths that are opened, listed and asked for their attributes meanwhile."""
    calls: dict[str, list[str]] = {"open": [], "scandir": [], "stat": [], "lstat": [], "listdir": []}
    with monkeypatch.context() as patch:
        for name, made in calls.items():
            real = getattr(os, name)

            def noted(path: Any, *rest: Any, real: Any = real, made: list[str] = made, **more: Any) -> Any:
                made.append(os.fspath(path))
                return real(path, *rest, **more)

            patch.setattr(os, name, noted)
        yield calls


def quiet(run: Path) -> Path:
    """Nothing was written there lately, as far as its modification times tell."""
    for where, dirs, files in os.walk(run):
        for name in (".", *dirs, *files):
            os.utime(os.path.join(where, name), (1.7e9, 1.7e9), follow_symlinks=False)
    return run


@pytest.mark.parametrize("run", RUNS)
def test_an_idle_poll_is_one_stat_of_the_run_directory_and_one_of_the_newest_step(
    run: str, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = IdleReports(settled=-1)
    path = str(cases / run)
    first = reports.report(path, None, lambda: verify(path), fresh=False)
    with counted(monkeypatch) as calls:
        second = reports.report(path, None, lambda: verify(path), fresh=False)
    assert second is first
    assert [len(calls[name]) for name in ("open", "scandir", "lstat", "listdir")] == [0, 0, 0, 0]
    assert calls["stat"] == [path, first.checkpoints[-1].path]


@pytest.mark.parametrize("run", RUNS)
def test_before_a_use_every_file_is_asked_for_its_attributes_and_none_is_read_again(
    run: str, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FindingCache(settled=-1)
    path = str(cases / run)
    first = verify(path, examine_file=cache)
    with counted(monkeypatch) as calls:
        second = verify(path, examine_file=cache)
    assert second == first
    opened = [each for each in calls["open"] if os.path.basename(each) not in SMALL and not each.startswith("/proc")]
    large = [each for each in opened if os.path.getsize(each) > 4096 or "/d/" in each]
    assert large == [], "heads of small files may be looked at, to know what they are"
    files = {os.path.join(where, name) for where, _, names in os.walk(second.checkpoints[-1].path) for name in names}
    looked = set(calls["stat"])
    needed = [each for each in files if not each.endswith((".py", ".md", "README", "commit_success.txt"))]
    assert all(each in looked for each in needed), set(needed) - looked


@pytest.mark.parametrize("run", ["good/orbax/manager_composite", "good/orbax/zarr_noocdbt", "good/tf/mgr"])
def test_a_changed_data_file_is_read_again(run: str, cases: Path, tmp_path: Path) -> None:
    copy = quiet(Path(shutil.copytree(cases / run, tmp_path / "run")))
    cache = FindingCache(settled=-1)
    first = verify(str(copy), examine_file=cache)
    assert all(each.intact for each in first.checkpoints)
    newest = Path(first.checkpoints[-1].path)
    candidates = [*newest.rglob("*")] if newest.is_dir() else [*newest.parent.glob(newest.name + ".data*")]
    data = max((each for each in candidates if each.is_file()), key=lambda each: each.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1])
    quiet(copy)
    assert not verify(str(copy), examine_file=cache).checkpoints[-1].intact


def test_whatever_happens_in_the_run_directory_or_its_newest_step_ends_the_idleness(tmp_path: Path) -> None:
    asked: list[int] = []

    def judge() -> RunReport:
        asked.append(1)
        return verify(str(tmp_path), settle=-1)

    reports = IdleReports(settled=-1)
    step = tmp_path / "checkpoint-4"
    step.mkdir()

    def look(fresh: bool = False) -> int:
        reports.report(str(tmp_path), None, judge, fresh)
        return len(asked)

    assert [look(), look()] == [1, 1]
    (step / "config.json").write_text("{}\n")
    assert [look(), look()] == [2, 2]
    (tmp_path / "checkpoint-8").mkdir()
    assert [look(), look()] == [3, 3]
    assert look(fresh=True) == 4


def test_a_save_that_goes_on_and_one_of_just_now_are_looked_at_each_time(tmp_path: Path) -> None:
    asked: list[int] = []

    def judge() -> RunReport:
        asked.append(1)
        return verify(str(tmp_path))

    (tmp_path / "checkpoint-4").mkdir()
    for settled in (-1.0, 1000.0):
        reports = IdleReports(settled=settled)
        before = len(asked)
        for _ in range(2):
            reports.report(str(tmp_path), None, judge, fresh=False)
        assert len(asked) == before + 2
