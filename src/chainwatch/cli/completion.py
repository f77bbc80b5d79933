"""`chainwatch completion SHELL`: what a shell needs to complete commands, options and the names of chains."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from chainwatch.cli.words import one_of


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[
        Shell,
        typer.Argument(
            metavar="bash|zsh|fish", help="Your shell.", parser=one_of(Shell), autocompletion=lambda: list(Shell)
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    \b
    chainwatch completion bash > ~/.local/share/bash-completion/completions/chainwatch

    \b
    chainwatch completion zsh > ~/.zfunc/_chainwatch        (a directory of $fpath)

    \b
    chainwatch completion fish > ~/.config/fish/completions/chainwatch.fish
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="chainwatch", complete_var="_CHAINWATCH_COMPLETE", shell=shell.value))


def chain_names(ctx: Any, incomplete: str) -> list[str]:
    """The chains of the state that the command line names, as far as they are wanted. Says nothing where there is none:
    a shell that completes is no place for errors."""
    from chainwatch.cli.common import opened
    from chainwatch.store import StoreError

    given = ctx.params.get("state") or os.environ.get("CHAINWATCH_STATE")
    try:
        with opened(Path(given) if given else None) as store:
            return [chain.name for chain in store.chains() if chain.name.startswith(incomplete)]
    except (StoreError, OSError):
        return []
