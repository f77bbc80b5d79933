"""`chainwatch latest` in a job of a chain judges as the daemon does, without being told so again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainwatch.cli.latest import main

RULE = json.dumps({"checkpoint": "step_{step}", "files": [{"glob": "*.bin"}]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for step in (10, 20):
        (tmp_path / "ckpt" / f"step_{step}").mkdir(parents=True)
        (tmp_path / "ckpt" / f"step_{step}" / "model.bin").write_bytes(bytes(100))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAINWATCH_CHECKPOINTS", str(tmp_path / "ckpt"))
    monkeypatch.setenv("CHAINWATCH_FORMAT", "custom")
    monkeypatch.setenv("CHAINWATCH_RULE", RULE)
    return tmp_path / "ckpt"


def test_the_chains_own_rule_is_used_so_that_nothing_starts_from_scratch(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["ckpt"]) == 0
    assert capfd.readouterr().out == f"{run}/step_20\n"


def test_what_the_chain_keeps_away_from_is_passed_over(
    run: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINWATCH_AVOID", f"{run}/step_20")
    assert main(["ckpt"]) == 0
    assert capfd.readouterr().out == f"{run}/step_10\n"


def test_another_directory_and_a_format_on_the_line_are_judged_for_themselves(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "step_5").mkdir()
    (other / "step_5" / "model.bin").write_bytes(bytes(100))
    assert main(["other"]) != 0
    assert main(["ckpt", "--format", "deepspeed"]) != 0
    assert capfd.readouterr().out == ""


def test_the_chains_format_is_used_too(
    run: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAINWATCH_RULE")
    monkeypatch.setenv("CHAINWATCH_FORMAT", "no-such-format")
    assert main(["ckpt"]) == 2
    assert "no-such-format" in capfd.readouterr().err
