"""What Lightning's SLURM plugin saves before it requeues a job."""

from __future__ import annotations

import shutil
from pathlib import Path

from chainwatch.checkpoints import newest_intact, verify


def test_a_save_before_a_requeue_counts_by_the_step_in_it_and_not_by_its_number(cases: Path, tmp_path: Path) -> None:
    """The kind: `hpc_ckpt_2.ckpt` was taken for step 2, so that the newest save of the run was the last to be chosen."""
    good = cases / "good" / "lightning" / "single"
    newest = max(good.glob("epoch=*.ckpt"), key=lambda path: int(path.stem.rsplit("step=", 1)[1]))
    older = min(good.glob("epoch=*.ckpt"), key=lambda path: int(path.stem.rsplit("step=", 1)[1]))
    assert older != newest
    shutil.copy(older, tmp_path / older.name)
    shutil.copy(newest, tmp_path / "hpc_ckpt_2.ckpt")
    chosen = newest_intact(str(tmp_path))
    assert chosen is not None
    assert Path(chosen.path).name == "hpc_ckpt_2.ckpt"
    assert chosen.step == int(newest.stem.rsplit("step=", 1)[1])
    assert not chosen.warnings
    with (tmp_path / "hpc_ckpt_2.ckpt").open("r+b") as file:
        file.truncate(3000)
    assert [one.intact for one in verify(str(tmp_path), settle=0).checkpoints].count(True) == 1
    rest = newest_intact(str(tmp_path))
    assert rest is not None
    assert Path(rest.path).name == older.name
