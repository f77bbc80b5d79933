"""What a shell has of the program: completion of commands, options and chains, and a manual page."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from chainwatch.cli import man
from chainwatch.cli.__main__ import main
from chainwatch.cli.app import COMMANDS, build
from chainwatch.cli.group import first_sentence, panels
from chainwatch.store import open_store
from tests.cli.test_nonsense import COMMANDS as COMMANDS_BY_PATH
from tests.store.build import record

BASH = """
source {script}
COMP_WORDS=(chainwatch {words}) COMP_CWORD={at} COMP_LINE="chainwatch {words}"
_chainwatch_completion chainwatch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
autoload -U compinit && compinit -D
compdef() {{ : }}
_arguments() {{ print -l -- $@ }}
_describe() {{ print -l -- ${{(P)2}} }}
source {script}
words=(chainwatch {words}) CURRENT={place}
_chainwatch_completion
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the program on PATH, and a state with two chains."""
    program = tmp_path / "chainwatch"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} -m chainwatch.cli "$@"\n'
    )
    program.chmod(0o755)
    store = open_store(tmp_path / "state")
    store.add_chain(record("llama-8b"))
    store.add_chain(record("whisper"))
    store.close()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def script(where: Path, name: str) -> Path:
    file = where / f"completion.{name}"
    file.write_text(
        subprocess.run(["chainwatch", "completion", name], capture_output=True, text=True, check=True).stdout
    )
    return file


def ran(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_the_names_of_chains(shell: Path) -> None:
    file = script(shell, "bash")

    def complete(words: str) -> list[str]:
        text = BASH.format(script=file, words=words, at=len(words.split()) + words.endswith(" "))
        return ran("bash", "--norc", "-c", text)

    assert complete("pau") == ["pause"]
    assert complete("retry ll") == ["llama-8b"]
    assert complete("explain ") == ["llama-8b", "whisper"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_the_names_of_chains(shell: Path) -> None:
    file = script(shell, "fish")
    assert ran("fish", "--no-config", "-c", f"source {file}; complete -C 'chainwatch retry ll'") == ["llama-8b"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_the_names_of_chains(shell: Path) -> None:
    file = script(shell, "zsh")
    assert "llama-8b" in " ".join(ran("zsh", "-f", "-c", ZSH.format(script=file, words="retry ll", place=3)))


def test_completion_without_a_state_says_nothing(shell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINWATCH_STATE", str(shell / "none"))
    done = subprocess.run(
        ["chainwatch"],
        env={**os.environ, "COMP_WORDS": "chainwatch retry l", "COMP_CWORD": "2", "_CHAINWATCH_COMPLETE": "complete_bash"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_help_lists_every_command_in_a_panel_with_its_whole_first_sentence() -> None:
    group = typer.main.get_command(build())
    listed = {name for commands in panels(group).values() for name, _ in commands}
    assert listed == {*COMMANDS, "latest", "verify", "exec"}
    assert all(
        first_sentence(command)[-1] == "." and len(first_sentence(command)) > 15
        for commands in panels(group).values()
        for _, command in commands
    )


def test_the_manual_page_has_every_command_and_option_and_says_nothing_strange_to_man(tmp_path: Path) -> None:
    text = man.page(typer.main.get_command(build()))
    for name in [*COMMANDS, "latest", "verify", "exec"]:
        assert f'.SS "chainwatch {name.replace("-", chr(92) + "-")}' in text, name
    for word in (".SH EXIT STATUS", "CHAINWATCH_STATE", "site.yaml", "\\-\\-cohort", "CHAINWATCH_RESUME_FROM"):
        assert word in text
    program = shutil.which("groff")
    if program is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [program, "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", COMMANDS_BY_PATH, ids="-".join)
def test_help_names_words_as_they_are_typed(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The kind: a library's own notation (`{CHAIN}`, `<str>`) in what people read."""
    assert main([*path, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: chainwatch {' '.join(path)} [OPTIONS]")
    assert not re.search(r"[{}]|<\w+>|\[required\]|\[\[", said)
    for parameter in COMMANDS_BY_PATH[path].params:
        assert getattr(parameter, "is_flag", False) or parameter.metavar, parameter.name


def test_text_cannot_become_a_request_of_the_page() -> None:
    assert man._text(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert man._text("a\\nb") == "a\\enb"
