"""All commands but those that start light (`latest`, `verify`, `exec`). Each is imported when it is the one to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from chainwatch import __version__
from chainwatch.cli import common, usage
from chainwatch.cli.group import Grouped, Plain

_LOOK, _WANT, _START, _KEEP = "Look", "Want", "Start", "Keep"
COMMANDS = {
    "run": ("run", _START), "check": ("check", _START), "submit": ("submit", _START), "adopt": ("adopt", _START),
    "init": ("init", _START), "lint": ("lint", _START), "install-service": ("install_service", _START),
    "doctor": ("doctor", _START), "step": ("step", _START), "reload": ("reload", _START), "job-side": ("job_side", _START),
    "status": ("status", _LOOK), "history": ("status", _LOOK), "explain": ("status", _LOOK),
    "diagnose": ("diagnose", _LOOK), "nodes": ("files", _LOOK), "metrics": ("metrics", _LOOK), "web": ("web", _LOOK),
    "runbook": ("runbook", _LOOK), "logs": ("logs", _LOOK), "man": ("man", _LOOK),
    "completion": ("completion", _START), "probe": ("probe", _LOOK),
    "pause": ("wishes", _WANT), "resume": ("wishes", _WANT), "stop": ("wishes", _WANT), "retry": ("wishes", _WANT),
    "done": ("wishes", _WANT), "mode": ("wishes", _WANT), "forget": ("wishes", _WANT),
    "quarantine": ("files", _KEEP), "restore": ("files", _KEEP), "backup": ("files", _KEEP),
    "alert": ("alert", _LOOK), "sbatch": ("sbatch", _START),
}  # fmt: skip
"""Command -> its module in this folder, and its panel in the help."""
_LIGHT = {
    "latest": ("Print the newest intact checkpoint of a run directory, for use in a batch script.", _LOOK),
    "verify": ("Judge a checkpoint, or every checkpoint of a run directory.", _LOOK),
    "exec": ("Run a command inside a job: checkpoint picked, signals passed on, an end record left behind.", _START),
}
"""Commands that start before the rest is imported -> what the help says of them, and their panel."""


def build(only: str | None = None) -> typer.Typer:
    """The program: with every command, or just one of them (importing all takes longer than most of them run)."""
    app = typer.Typer(
        name="chainwatch",
        help="Keeps long training runs on Slurm alive.\n\nExit codes: 0 done; 1 the answer is no; 2 usage, "
        "configuration or state cannot be used; 3 refused; 4 no answer from Slurm or the storage.",
        cls=Grouped,
        no_args_is_help=True,
        add_completion="_CHAINWATCH_COMPLETE" in os.environ,  # people have `chainwatch completion`
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    for name in COMMANDS if only is None else [only]:
        _add(app, name)
    if only is None:
        for name, (said, panel) in _LIGHT.items():
            _light(app, name, said, panel)
    return app


def _say_version() -> None:
    typer.echo(f"chainwatch {__version__}")


def _version(wanted: bool) -> None:
    if wanted:
        _say_version()
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
) -> None:
    del version, debug


def _add(app: typer.Typer, name: str) -> None:
    module_name, panel = COMMANDS[name]
    module = import_module(f"chainwatch.cli.{module_name}")
    if name == "alert":
        app.add_typer(module.app, name=name, rich_help_panel=panel)
        return
    command = module.command if name == "diagnose" else getattr(module, name.replace("-", "_"))
    more: dict[str, Any] = {}
    if name == "sbatch":
        extra = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
        more = {"add_help_option": False, "context_settings": extra}
    app.command(name, cls=Plain, rich_help_panel=panel, **more)(command)


def _light(app: typer.Typer, name: str, help_text: str, panel: str) -> None:
    def named(context: typer.Context) -> None:
        from chainwatch.cli.__main__ import main as light

        sys.argv = [sys.argv[0], name, *context.args]
        raise typer.Exit(light())

    named.__doc__ = help_text
    app.command(
        name,
        rich_help_panel=panel,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    )(named)


def _completing() -> str | None:
    """The command whose words a shell completes; None where it completes the command itself, or nothing."""
    if "_CHAINWATCH_COMPLETE" not in os.environ:
        return None
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split(None, 2)
    return words[1] if len(words) > 2 and words[1] in COMMANDS else None


def main(arguments: Sequence[str]) -> int:
    """Run one of the other commands; its exit code."""
    completing = _completing()  # a shell waits for the answer at each press of the key
    words, debug = ([*arguments], False) if completing else _without_debug(arguments)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    first = completing or next((word for word in words if not word.startswith("-")), None)
    if not completing and (wrong := _wrong(words, first)):
        print(f"chainwatch: {wrong}", file=sys.stderr)
        return common.UNUSABLE
    if first is None and "--version" in words:
        return common.guarded(_say_version, debug=debug)
    if first is not None and not completing and words[0] in _HELP:
        words = [first, words[0]]
    if debug and first == "run":
        words.append("--debug")  # it logs more, too
    app = build(first if first in COMMANDS else None)
    return common.guarded(lambda: app(words, prog_name="chainwatch", standalone_mode=False), debug=debug)


_HELP = ("-h", "--help")
_OTHERS_WORDS = frozenset({"sbatch", "exec"})
"""Commands whose words are another program's: its `--debug`, its empty ones."""
_MAY_BE_EMPTY = frozenset({"--why", "--reason", "--exit-code", "--nodes", "--cluster"})
"""Options of which nothing is an answer; and `--state` of `diagnose`, which is Slurm's."""


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """`--debug` may stand anywhere among our own words."""
    words = list(arguments)
    ours = next((n for n, word in enumerate(words) if word == "--" or word in _OTHERS_WORDS), len(words))
    kept = [word for word in words[:ours] if word != "--debug"]
    return kept + words[ours:], len(kept) < ours


def _wrong(words: Sequence[str], first: str | None) -> str:
    """What is wrong with the words as a whole; empty if nothing is."""
    before = words[: words.index(first)] if first is not None else words
    if "--version" in before and len(words) > 1:
        other = next(word for word in words if word != "--version")
        return f"--version stands alone, without {common.utf8(other)}"
    if first and first not in COMMANDS and first not in _LIGHT:
        return usage.no_such_command(common.utf8(first) or "", [*COMMANDS, *_LIGHT])
    return "" if first in _OTHERS_WORDS else _empty_word(words, first)


def _empty_word(words: Sequence[str], first: str | None) -> str:
    """That an argument is empty: `"$UNSET"` would mean the current directory to most commands."""
    unset = "is a variable of the shell not set?"
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if not word:
            option = before
        elif not (option.startswith("--") and equals and not value):
            continue
        if not option.startswith("-"):
            return f"an argument is empty: {unset}"
        if option not in _MAY_BE_EMPTY and (first, option) != ("diagnose", "--state"):
            return f"{option} is empty: {unset}"
    return ""


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(name)
