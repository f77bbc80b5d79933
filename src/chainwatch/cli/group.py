"""The list of commands in `chainwatch --help`: by what people come for, each with its whole first sentence."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

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
