"""Whatever is typed: one sentence of our own, a documented exit code, and nothing touched that is not ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from chainwatch.cli import usage
from chainwatch.cli.__main__ import main
from chainwatch.cli.app import build
from tests.cli.tools import state_of_one_chain

GROUP: Any = typer.main.get_command(build())
OTHERS = ("Traceback", "fault of chainwatch", "Input should", "Invalid value", "Error: ", "Usage: ", "[Errno")
"""Words that are not ours, and ours for what must not happen."""
NONSENSE = ("", "0", "-1", "9" * 30, "a\nb", "\udcff", "☃", "folder", "file")
GIVEN = {"CHAIN": "llama", "CONFIG": "none.yaml", "FILE": "copy", "PATH": "file", "SCRIPT": "file", "JOBID": "12"}
ALWAYS = {"install-service": ["--print"], "run": ["--once"]}
"""Nothing is written outside the test's directory, and no daemon stays."""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file, a folder, and a state of one chain; no Slurm, no home."""
    state_of_one_chain(tmp_path)
    (tmp_path / "file").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "folder").mkdir()
    for name, value in (("CHAINWATCH_STATE", tmp_path / "state"), ("HOME", tmp_path), ("PATH", tmp_path)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, (*path, name))
        elif name not in {"sbatch", "exec", "latest", "verify"}:
            yield (*path, name), command


COMMANDS = dict(commands(GROUP))


@pytest.mark.parametrize("path", COMMANDS, ids="-".join)
def test_nonsense_for_any_word_of_any_command_is_answered_in_a_sentence_of_our_own(
    path: tuple[str, ...], shell: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kind: a word that nobody thought of reaches a library, which speaks for itself, or is not looked at."""
    command = COMMANDS[path]
    required = {
        p.name: GIVEN.get(str(p.metavar), "word")
        for p in command.params
        if p.param_type_name == "argument" and p.required
    }
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            continue
        for word in NONSENSE:
            given = dict(required)
            own: list[str] = []
            if parameter.param_type_name == "argument":
                given[parameter.name] = word
            else:
                own = [f"{max(parameter.opts, key=len)}={word}"]
            words = [*path, *own, *ALWAYS.get(path[0], []), "--", *given.values()]
            code = main(words)
            said = capfd.readouterr().err
            assert code in {0, 1, 2, 3, 4}, (words, code)
            assert not [other for other in OTHERS if other in said], (words, said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("explain llama 0", 2, "ATTEMPT: a whole number of at least 1 is expected, not '0' (see chainwatch explain --help)"),
        ("explain llama -a -3", 2, "--attempt: a whole number of at least 1 is expected, not '-3' (see chainwatch explain"),
        (f"logs llama {'9' * 30}", 1, f"llama has no attempt {'9' * 30}"),
        (f"explain llama {'9' * 9000}", 2, "ATTEMPT: a whole number of at least 1 is expected, not '999"),
        ("explain llama 1 2", 2, "too many words: 2 (see chainwatch explain --help)"),
        ("history", 2, "CHAIN is missing (see chainwatch history --help)"),
        ("status --jsn", 2, "no such option: --jsn; did you mean --json? (see chainwatch status --help)"),
        ("status --state", 2, "--state needs a value"),
        ("status --json=1", 2, "--json takes no value"),
        ("statu", 2, "no such command: statu; did you mean status?"),
        ("cancel llama", 2, "no such command: cancel; did you mean stop --cancel?"),
        ("list", 2, "no such command: list; did you mean status?"),
        ("xyzzy", 2, "no such command: xyzzy; chainwatch --help lists them"),
        ("alert tset", 2, "no such command: tset (see chainwatch alert --help)"),
        ("--version bogus", 2, "--version stands alone, without bogus"),
        ("--version status", 2, "--version stands alone, without status"),
        ("--help bogus", 2, "no such command: bogus; did you mean logs?"),
        ("mode llama ACT", 2, "observe|act: `observe` or `act` is expected, not 'ACT'; did you mean `act`? (see"),
        ("run none.yaml --log-level loud", 2, "--log-level: `debug`, `info`, `warning` or `error` is expected, not 'loud'"),
        ("pause llama --for 0", 2, "--for 0 would be no pause at all"),
        ("web --port 99999", 2, "--port: a whole number from 0 to 65535 is expected, not '99999'"),
        ("check --schema file", 2, "--schema is of every configuration"),
        ("metrics --openmetrics --textfile x.prom", 2, "a textfile has node_exporter's own format"),
        ("verify folder --keep 3", 2, "--keep and --rate are for --seal"),
        ("verify folder --seal --keep 1.5", 2, "--keep takes a whole number, not '1.5'"),
        ("diagnose 12 --reason x", 2, "--state, --exit-code, --reason and --nodes go with --log"),
        ("diagnose --log file --cluster x", 2, "--cluster is for a job id"),
        ("diagnose --log file --state LOST", 2, "--state 'LOST' is no state that Slurm shows"),
        ("diagnose --log file --exit-code 300", 2, "--exit-code '300' is not like Slurm's `1:0`"),
        ("adopt 12 --done-step 0", 2, "--done-step: a whole number of at least 1 is expected, not '0'"),
        ("adopt 12 --name a/b", 2, "letters, digits, `.`, `_` and `-` make a chain's name"),
        ("sbatch --cw-name= file", 2, "letters, digits, `.`, `_` and `-` make a chain's name"),
        ("init file -o folder", 2, "folder is a directory: name a file in it"),
        ("submit nobody", 1, "no chain is named nobody"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_what_is_expected_is_said(
    words: str, code: int, said: str, shell: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == code
    told = capfd.readouterr().err
    assert told.startswith(f"chainwatch: {said}")
    assert told.count("\n") == 1


@pytest.mark.parametrize("option", ["--state=", "--state"])
def test_an_option_that_a_variable_left_empty_never_means_the_current_directory(
    option: str, shell: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", option, *([] if option.endswith("=") else [""])]) == 2
    assert "--state is empty: is a variable of the shell not set?" in capfd.readouterr().err


@pytest.mark.parametrize("words", ["status --state \x1b[31m", "lint \x1b[31m", "restore \x1b[31m", "history \x1b[31m"])
def test_no_word_drives_the_terminal(words: str, shell: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words.split(" ")) in {1, 2}
    said = capfd.readouterr().err
    assert ("\x1b" in said, "\\x1b[31m" in said) == (False, True)


def test_debug_stands_anywhere_and_the_help_of_a_command_on_both_sides(
    shell: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--debug", "history", "llama"]) == main(["history", "llama", "--debug"]) == 0
    capfd.readouterr()
    assert main(["--help", "history"]) == main(["history", "-h"]) == main(["help", "history"]) == 0
    first, second, third = capfd.readouterr().out.split("Usage: ")[1:]
    assert first.strip() == second.strip() == third.strip()
    assert main(["help"]) == 0


def _kept(path: Path) -> tuple[int, ...]:
    """Of a file all but when it was last read: to follow a link is to read it."""
    found = path.lstat()
    return (*found[:7], found.st_mtime_ns, found.st_ctime_ns)


@pytest.mark.parametrize("command", ["job-side", "metrics --textfile", "backup"])
@pytest.mark.parametrize("what", ["file", "fifo", "folder/link"])
def test_a_file_that_is_not_ours_and_a_device_are_never_replaced(
    command: str, what: str, shell: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kind: a rename puts a file in the place of whatever a person named, a device and a script among them."""
    os.mkfifo(shell / "fifo")
    (shell / "folder" / "link").symlink_to("/dev/null")
    before = _kept(shell / what)
    assert main([*command.split(), what]) == 2
    assert "left as it is" in (said := capfd.readouterr().err) or "no regular file" in said
    assert _kept(shell / what) == before
    assert {p.name for p in (shell / what).parent.iterdir()} <= {"file", "folder", "fifo", "state", "link"}
    own = str(shell / "own.db")
    assert main([*command.split(), own]) == main([*command.split(), own]) == 0, "its own gives way"


def test_commands_that_are_named_for_words_of_other_tools_exist() -> None:
    ours = {name.split()[0] for name in usage._MEANT} - {"--version"}
    assert ours <= set(GROUP.commands)
    assert not set(usage._OURS) & set(GROUP.commands)
