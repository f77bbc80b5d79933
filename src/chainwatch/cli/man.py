"""`chainwatch man`: the manual page, made from the commands themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import typer

from chainwatch import __version__

_FILES = (
    ("~/.config/chainwatch/", "Configuration: `chainwatch init` begins it, `chainwatch check --schema` describes it."),
    ("~/.local/state/chainwatch/", "State: database, audit.log, web.sock. Only its owner may read it."),
    ("/etc/chainwatch/site.yaml", "The site's limits, which users cannot loosen."),
    ("/etc/chainwatch/PAUSE", "While it is there, nothing is submitted or cancelled; its text is the reason."),
)
_LIGHT = {"latest": "chainwatch.cli.latest", "verify": "chainwatch.cli.verify", "exec": "chainwatch.job.main"}


def man() -> None:
    """Show the manual page, or print it where there is no terminal.

    `chainwatch man > ~/.local/share/man/man1/chainwatch.1` makes it known to man.
    """
    from chainwatch.cli.app import build

    text = page(typer.main.get_command(build()))
    program = shutil.which("man")
    if sys.stdout.isatty() and program is not None:
        raise typer.Exit(subprocess.run([program, "-l", "-"], input=text, text=True, check=False).returncode)
    typer.echo(text, nl=False)


def page(group: Any) -> str:
    """The page in the man(7) language."""
    from chainwatch.cli.group import panels

    about, codes = (group.help or "").split("\n\n", 1)
    lines = [f'.TH CHAINWATCH 1 "" "chainwatch {__version__}" "User Commands"', ".SH NAME"]
    lines += [f"chainwatch \\- {_text(about[:1].lower() + about[1:].rstrip('.'))}", ".SH SYNOPSIS"]
    lines += [".B chainwatch", "[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]", ".SH OPTIONS"]
    lines += _options(group)
    for title, commands in panels(group).items():
        lines.append(f".SH COMMANDS: {title.upper()}")
        for name, command in sorted(commands):
            lines += _command(name, command)
    lines += [".SH EXIT STATUS", _text(codes.removeprefix("Exit codes: ")), ".SH FILES"]
    for path, said in _FILES:
        lines += [".TP", f".I {_text(path)}", _text(said)]
    lines += [".SH SEE ALSO", ".BR sbatch (1),", ".BR squeue (1),", ".BR sacct (1),", ".BR scrontab (1)"]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    if name in _LIGHT:
        module = __import__(_LIGHT[name], fromlist=["HELP"])
        yield f'.SS "chainwatch {name}"'
        yield from (".nf", *map(_text, str(module.HELP).split("\n", 2)[2].rstrip().splitlines()), ".fi")
        return
    for sub, one in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {sub}", one)
    if getattr(command, "commands", None):
        return
    yield f'.SS "chainwatch {_text(f"{name} {_arguments(command)}".strip())}"'
    for number, paragraph in enumerate((command.help or "").split("\n\n")):
        yield from (*([".PP"] if number else []), _text(" ".join(paragraph.replace("\b", "").split())))
    yield from _options(command)


def _options(command: Any) -> Iterator[str]:
    from chainwatch.cli.group import help_record

    context = command.make_context(command.name, [], resilient_parsing=True)
    for parameter in command.params:
        record = help_record(parameter, context)
        if record is not None:
            words = [f"\\fB{_text(w)}\\fR" if w.startswith("-") else f"\\fI{_text(w)}\\fR" for w in record[0].split()]
            yield from (".TP", " ".join(words), _text(" ".join(record[1].split())))


def _arguments(command: Any) -> str:
    """What stands after the command's name, as in its usage line."""
    context = command.make_context(command.name, [], resilient_parsing=True)
    pieces = [piece for p in command.params if p.param_type_name == "argument" for piece in p.get_usage_pieces(context)]
    return " ".join(re.sub(r"[{}]|\[(?=\[)|\](?=\])", "", piece) for piece in pieces)


def _text(text: str) -> str:
    """Plain text as man(7) reads it: no character of it is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text[:1] in {".", "'"} else text
