"""How help looks: the commands by what people come for, each with its whole first sentence; words as they are typed."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

PANELS = {"Start": "To start", "Look": "To look", "Want": "To want something", "Keep": "To keep"}


def panels(group: Any) -> dict[str, list[tuple[str, Any]]]:
    """The commands of a group by the title of their panel, in the order of `PANELS`."""
    found: dict[str, list[tuple[str, Any]]] = {title: [] for title in PANELS.values()}
    for name, command in group.commands.items():
        found[PANELS[getattr(command, "rich_help_panel", None) or "Look"]].append((name, command))
    return found


def first_sentence(command: Any) -> str:
    """What a command does, in one line of prose."""
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.;])\s(?=[A-Z`a-z])", text, maxsplit=1)[0].rstrip(";.") + "."


class Grouped(TyperGroup):
    """Click's help, with the commands in panels and nothing cut off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in panels(self).items():
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name, first_sentence(command)) for name, command in commands])


def help_record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """An argument or option and what it is, without the library's notation: `CHAIN`, not `CHAIN <str>  [required]`."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    return re.sub(r" <[^>]*>$", "", record[0]), record[1].removesuffix("  [required]")


class Plain(TyperCommand):
    """One command's help in the same words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        if self.name == "sbatch":
            return ["[sbatch's options]", "[SCRIPT [ARGS]...]"]
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            mine = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            rows = [record for each in mine if (record := help_record(each, ctx)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
