"""Which state a command works on: one rule for all of them, so that what is typed in one shell meets."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.__main__ import main
from chainwatch.config import load
from chainwatch.config.place import placed
from chainwatch.store import open_store
from tests.store.build import record


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a configuration that names a state, and no Slurm."""
    (tmp_path / "c.yaml").write_text(f"state: {tmp_path}/own\nchains: {{a: {{batch: train.sh}}}}\n")
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CHAINWATCH_STATE", raising=False)
    monkeypatch.delenv("CHAINWATCH_DATABASE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def used(shell: Path, command: str) -> str:
    """The state that a command opened, or said that there is none at."""
    common.guarded(lambda: main(command.format(c=shell / "c.yaml").split()), debug=False)
    return ", ".join(str(f.parent.relative_to(shell)) for f in sorted(shell.rglob("*.db")))


@pytest.mark.parametrize("command", ["run {c} --once", "submit a -c {c}"])
@pytest.mark.parametrize("how", ["option", "variable", "configuration", "default", "empty variable"])
def test_the_option_and_the_variable_win_over_the_configuration_and_that_over_the_default(
    shell: Path, command: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "option":
        command += f" --state {shell}/other"
        monkeypatch.setenv("CHAINWATCH_STATE", str(shell / "third"))
    elif how == "variable":
        monkeypatch.setenv("CHAINWATCH_STATE", str(shell / "other"))
    elif how == "empty variable":
        monkeypatch.setenv("CHAINWATCH_STATE", "")
    elif how == "default":
        (shell / "c.yaml").write_text("chains: {a: {batch: train.sh}}\n")
    where = {"option": "other", "variable": "other", "default": ".local/state/chainwatch"}.get(how, "own")
    assert used(shell, command) == where


def test_a_reload_asks_the_daemon_of_the_configuration_that_it_was_given(
    shell: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(shell / "own").close()
    assert main(["reload", "-c", "c.yaml"]) == 1
    assert "no daemon is at work" in capsys.readouterr().err
    monkeypatch.setenv("CHAINWATCH_STATE", str(shell / "other"))
    assert main(["reload", "-c", "c.yaml"]) == 2
    assert f"there is no state at {shell}/other" in capsys.readouterr().err


def test_a_daemon_says_that_another_state_counts_than_its_configuration_names(
    shell: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"the state is {shell}/other: --state and CHAINWATCH_STATE win over the configuration's {shell}/own"
    main(["run", "c.yaml", "--once", "--state", "other"])
    assert said in capsys.readouterr().err
    main(["run", "c.yaml", "--once", "--state", "own"])
    assert "win over" not in capsys.readouterr().err
    (shell / "c.yaml").write_text("chains: {a: {batch: train.sh}}\n")
    main(["run", "c.yaml", "--once", "--state", "other"])
    assert "win over" not in capsys.readouterr().err, "the configuration names none"


def test_commands_find_the_database_that_the_configuration_names(
    shell: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind: a command beside the daemon that writes into a database of its own."""
    config = shell / "c.yaml"
    config.write_text(f"database: sqlite:///{shell}/chains.db\nchains: {{a: {{batch: train.sh}}}}\n")
    assert used(shell, "submit a -c {c}") == "."
    assert used(shell, "run {c} --once") == "."
    monkeypatch.setenv("CHAINWATCH_DATABASE", f"sqlite:///{shell}/mine/chains.db")
    (shell / "chains.db").unlink()
    assert used(shell, "run {c} --once") == "mine"
    assert placed(load(config).config, None, common.database()).database == f"sqlite:///{shell}/mine/chains.db"
    store = open_store(shell, f"sqlite:///{shell}/mine/chains.db")
    store.add_chain(record("known"))
    store.close()
    capsys.readouterr()
    assert main(["metrics"]) == 0
    assert main(["history", "known"]) == 0


def test_an_empty_variable_is_none_for_sbatch_too(shell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINWATCH_STATE", "")
    assert used(shell, "sbatch train.sh") == ".local/state/chainwatch"
