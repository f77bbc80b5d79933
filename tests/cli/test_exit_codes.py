"""Every command says what its exit codes mean, and no library's words reach a person."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import chainwatch
from chainwatch.cli.__main__ import main
from chainwatch.cli.app import COMMANDS
from chainwatch.cli.common import guarded
from chainwatch.config.models import Chain
from chainwatch.store import open_store
from tests.store.build import record

_SHOW = {"man", "completion"}
"""They print, and cannot fail but for what every command can."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - _SHOW - {"alert"}))
def test_the_help_of_a_command_says_what_its_exit_codes_mean(name: str) -> None:
    module = import_module(f"chainwatch.cli.{COMMANDS[name][0]}")
    command = module.command if name == "diagnose" else getattr(module, name.replace("-", "_"))
    assert "Exit code" in (command.__doc__ or "")


def test_a_copy_and_a_first_configuration_keep_to_their_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, script = tmp_path / "state", tmp_path / "train.sh"
    assert main(["backup", str(tmp_path / "copy.db"), "--state", str(state)]) == 2
    assert "there is no state" in capsys.readouterr().err
    script.write_text("#!/bin/sh\n#SBATCH -J x\n")
    monkeypatch.chdir(tmp_path)
    assert main(["init", str(script), "-o", "c.yaml"]) == 0
    assert main(["init", str(script), "-o", "c.yaml"]) == 1
    assert main(["init", str(tmp_path / "none.sh"), "-o", "d.yaml"]) == 2
    assert main(["init", str(script), "-o", "c.yaml/d.yaml"]) == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    capsys.readouterr()
    assert main(["init", "4711", "-o", "d.yaml"]) == 4
    assert capsys.readouterr().err.startswith("chainwatch: Slurm does not answer")


def test_what_is_remembered_and_does_not_fit_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        Chain.stored({"batch": "/x", "caps": {"attempts": "x"}})

    assert guarded(run, debug=False) == 2
    said = "what is remembered does not fit this version of chainwatch (Chain: caps.attempts); --debug shows the rest"
    assert capsys.readouterr().err == f"chainwatch: {said}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_no_fault_of_chainwatch(tmp_path: Path, closed: str) -> None:
    state = tmp_path / "state"
    store = open_store(state)
    store.add_chain(record("llama-8b"))
    store.close()
    ask = f"{sys.executable} -m chainwatch.cli status --state {state} {closed}"
    done = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "fault" in done.stderr) == (0, False)


def test_a_current_directory_that_is_gone_and_a_full_device_are_said_in_plain_words(tmp_path: Path) -> None:
    def said(command: str) -> tuple[int, str]:
        (tmp_path / "gone").mkdir()
        ask = f"cd {tmp_path}/gone && rmdir ../gone && {sys.executable} -m chainwatch.cli {command}"
        done = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, timeout=60, env=here, check=False)
        return done.returncode, done.stderr

    here = {**os.environ, "PYTHONPATH": str(Path(chainwatch.__file__).parents[1])}
    assert said("check c.yaml") == (2, "chainwatch: the current directory is gone: cd to one that exists\n")
    assert said("latest ckpt") == (2, "chainwatch: the current directory is gone: cd to one that exists\n")
    full = "chainwatch: what is printed cannot be written: no space is left there\n"
    assert said("--version >/dev/full") == (2, full)
