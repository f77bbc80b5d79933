"""Writing the units, and not over somebody's changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from chainwatch.cli.install_service import install_service

app = typer.Typer()
app.command()(install_service)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_unit_is_written_and_the_next_commands_are_said(tmp_path: Path) -> None:
    done = run("--user", "--directory", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert "systemctl --user enable --now chainwatch.service" in done.output
    assert "enable-linger" in done.output
    unit = tmp_path / "new" / "chainwatch.service"
    assert "ExecStart=" in unit.read_text()
    assert unit.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in unit.parent.iterdir()] == ["chainwatch.service"]
    assert run("--user", "--directory", str(tmp_path / "new")).exit_code == 0, "the same again is no error"


def test_a_state_that_only_this_shell_knows_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAINWATCH_STATE", raising=False)
    assert "CHAINWATCH_STATE" not in run("--user", "--directory", str(tmp_path)).output
    monkeypatch.setenv("CHAINWATCH_STATE", "/scratch/ada/state")
    assert "write `state: /scratch/ada/state` into" in run("--user", "--directory", str(tmp_path)).output


def test_a_changed_unit_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "chainwatch.service").write_text("mine")
    done = run("--user", "--directory", str(tmp_path))
    assert done.exit_code == 1
    assert "--force" in done.output
    assert (tmp_path / "chainwatch.service").read_text() == "mine"
    assert run("--user", "--force", "--directory", str(tmp_path)).exit_code == 0


def test_the_timer_comes_with_its_service(tmp_path: Path) -> None:
    assert run("--user", "--once", "--directory", str(tmp_path)).exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chainwatch-once.service", "chainwatch-once.timer"]


def test_print_writes_nothing(tmp_path: Path) -> None:
    done = run("--print", "--config", "/etc/cw", "--directory", str(tmp_path))
    assert "User=%i" in done.output
    assert " run /etc/cw\n" in done.output
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--directory", str(tmp_path / "file" / "x"))
    assert done.exit_code == 2
    assert "cannot write to" in done.output
    assert "Traceback" not in done.output
    assert run("--config", "a b", "--print").exit_code == 2
