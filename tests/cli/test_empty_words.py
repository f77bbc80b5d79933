"""`chainwatch latest "$UNSET"`: an empty argument is nobody's wish, and never means the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main

COMMANDS = ("latest", "verify", "quarantine", "restore", "backup", "check", "lint", "history", "logs", "status")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_argument_is_wrong_use_and_touches_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    assert main([command, ""]) == 2
    assert "is a variable of the shell not set?" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_option_may_have_an_empty_value(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "out"
    log.write_text("ValueError: no\n")
    assert main(["diagnose", "--log", str(log), "--reason", ""]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("exec", "--checkpoints", "", "--", "true"),
        ("exec", "--checkpoints=", "--", "true"),
        ("latest", ".", "--rule", ""),
        ("verify", ".", "--state="),
        ("lint", "x", "--chain", ""),
    ],
)
def test_an_option_that_a_variable_left_empty_is_no_option_that_was_left_out(
    words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """The kind: `exec --checkpoints "$UNSET"` picks nothing, and the job starts from step 0."""
    assert main(list(words)) == 2
    assert "is empty: is a variable of the shell not set?" in capfd.readouterr().err
