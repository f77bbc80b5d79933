"""The user's own rule: files by glob, how many, how large, and a JSON key that must be the step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import Status, newest_intact, verify
from chainwatch.checkpoints.formats.custom import Rule

RULE = Rule.parse(
    {
        "checkpoint": "snap_{step}",
        "files": ["weights-{step}.bin", {"glob": "optim/rank*.dat", "count": 2, "min_bytes": 10}],
        "json": [{"file": "state.json", "key": "trainer.step"}],
    }
)


def snap(run: Path, step: int) -> Path:
    where = run / f"snap_{step}"
    (where / "optim").mkdir(parents=True)
    (where / f"weights-{step}.bin").write_bytes(b"w" * 100)
    for rank in range(2):
        (where / "optim" / f"rank{rank}.dat").write_bytes(b"o" * 10)
    (where / "state.json").write_text(json.dumps({"trainer": {"step": step}}))
    return where


def judge(where: Path) -> Any:
    return verify(str(where), format="custom", custom=RULE, settle=-1.0).checkpoints[0]


def test_a_checkpoint_as_the_rule_says_is_intact_and_its_step_is_known(tmp_path: Path) -> None:
    snap(tmp_path, 5)
    newest = snap(tmp_path, 10)
    found = newest_intact(str(tmp_path), format="custom", custom=RULE)
    assert found is not None
    assert (found.path, found.step, found.format) == (str(newest), 10, "custom")
    assert len(verify(str(tmp_path), format="custom", custom=RULE).checkpoints) == 2


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("weights-5.bin", None, Status.INCOMPLETE, "missing"),
        ("weights-5.bin", b"", Status.DAMAGED, "truncated"),
        ("optim/rank1.dat", None, Status.INCOMPLETE, "missing"),
        ("optim/rank1.dat", b"short", Status.DAMAGED, "truncated"),
        ("optim/rank2.dat", b"one too many", Status.DAMAGED, "structure"),
        ("state.json", None, Status.INCOMPLETE, "missing"),
        ("state.json", b'{"trainer": {', Status.DAMAGED, "structure"),
        ("state.json", b'{"trainer": {"step": 4}}', Status.DAMAGED, "step"),
        ("state.json", b'{"trainer": 7}', Status.DAMAGED, "structure"),
    ],
)
def test_what_differs_from_the_rule_is_named(
    tmp_path: Path, name: str, content: bytes | None, status: Status, code: str
) -> None:
    where = snap(tmp_path, 5)
    if content is None:
        (where / name).unlink()
    else:
        (where / name).write_bytes(content)
    found = judge(where)
    assert found.status is status
    assert found.problems[0].code == code


def test_files_that_a_rule_names_are_also_looked_into(tmp_path: Path) -> None:
    import numpy as np

    where = snap(tmp_path, 5)
    np.save(where / "optim" / "x.npy", np.arange(100))
    rule = Rule.parse({"checkpoint": "snap_{step}", "files": ["optim/*.npy"]})
    path = where / "optim" / "x.npy"
    path.write_bytes(path.read_bytes()[:-8])
    found = verify(str(where), format="custom", custom=rule, settle=-1.0).checkpoints[0]
    assert found.status is Status.DAMAGED


def test_a_single_file_can_be_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "w-300.blob").write_bytes(b"x" * 50)
    (tmp_path / "w-400.blob").write_bytes(b"x" * 5)
    rule = Rule.parse({"checkpoint": "w-{step}.blob", "files": [{"glob": "*", "min_bytes": 20}]})
    found = newest_intact(str(tmp_path), format="custom", custom=rule, settle=-1.0)
    assert found is not None
    assert found.step == 300


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "custom.checkpoint"),
        ({"checkpoint": "x"}, "custom.checkpoint"),
        ({"checkpoint": "a/{step}"}, "custom.checkpoint"),
        ({"checkpoint": "s{step}", "fils": []}, "'fils'"),
        ({"checkpoint": "s{step}", "files": [{"count": 2}]}, r"custom.files\[0\]"),
        ({"checkpoint": "s{step}", "files": [{"glob": "*", "count": 0}]}, r"custom.files\[0\].count"),
        ({"checkpoint": "s{step}", "files": ["/etc/passwd"]}, "inside the checkpoint"),
        ({"checkpoint": "s{step}", "files": ["../x"]}, "inside the checkpoint"),
        ({"checkpoint": "s{step}", "json": [{"file": "x"}]}, r"custom.json\[0\]"),
        ({"checkpoint": "s{step}", "files": 7}, "custom.files"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_the_key_that_is_wrong(value: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rule.parse(value)


def test_the_custom_format_without_a_rule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a rule"):
        verify(str(tmp_path), format="custom")
