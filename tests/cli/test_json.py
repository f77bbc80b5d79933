"""`--json`: every command that answers has it, and what it prints is one document."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chainwatch.cli import common
from chainwatch.cli.__main__ import LIGHT, main
from chainwatch.store import open_store
from chainwatch.supervisor.daemon import holder
from chainwatch.supervisor.reloading import answer
from tests.cli.test_nonsense import COMMANDS
from tests.cli.tools import state_of_one_chain

README = Path(__file__).parents[2] / "README.md"


def without() -> set[str]:
    """The commands that the README says to have none."""
    text = " ".join(README.read_text().split())
    found = re.search(r"What answers has `--json`, but what has a form of its own: (.*?)\.", text)
    assert found, "the sentence is gone"
    return set(re.findall(r"`([^`]+)`", found[1]))


def test_the_readme_says_exactly_which_commands_have_no_json() -> None:
    have = {
        " ".join(path)
        for path, command in COMMANDS.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    have |= {name for name in ("latest", "verify") if "--json" in import_module(f"chainwatch.cli.{LIGHT[name]}").HELP}
    assert without() == {*map(" ".join, COMMANDS), *LIGHT, "sbatch"} - have


def test_the_readme_lists_every_command_once() -> None:
    table = README.read_text().partition("| to look |")[2].partition("\n\n")[0]
    listed = re.findall(r"`([a-z-]+)`", table)
    assert sorted(listed) == sorted({path[0] for path in COMMANDS} | {"sbatch", "latest", "verify", "exec"})


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state_of_one_chain(tmp_path)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n#SBATCH -J llama\nsrun train\n")
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("backup copy.db", {"backup", "bytes"}),
        ("init train.sh -o c.yaml", {"chain", "mode", "written", "configuration"}),
        ("init train.sh -o -", {"chain", "mode", "written", "configuration"}),
        ("job-side cw", {"file", "bytes"}),
        ("runbook person", {"name", "title", "text"}),
        ("install-service --user --directory units", {"written", "next"}),
        ("install-service --print", {"units"}),
    ],
)
def test_what_was_done_is_one_document(
    words: str, keys: set[str], shell: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert said.keys() == keys
    for key in ("backup", "written", "file"):
        for path in [said[key]] if isinstance(said.get(key), str) else said.get(key) or []:
            assert Path(path).exists()


def test_the_list_of_pages_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runbook", "--json"]) == 0
    assert all(page.keys() == {"name", "title"} for page in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("the new configuration is refused: c.yaml:1: x", 2)])
def test_what_came_of_a_reload_is_one_document(
    problem: str, code: int, shell: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(shell / "state")
    try:
        store.acquire_lease(holder(), timedelta(minutes=5), common.now())
        told = "" if problem else "read again"
        monkeypatch.setattr(os, "kill", lambda *_: answer(store, common.now(), problem, told))
        assert main(["reload", "--json"]) == code
        said = {"daemon": holder(), "granted": not problem, "said": problem or told}
        assert json.loads(capsys.readouterr().out) == said
    finally:
        store.close()
