"""What the batch scripts bring into a configuration: the rule that `check` and `reload` refuse one by, and of which `run`
tells; and what only `check` warns of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from chainwatch.actions import beforehand, options
from chainwatch.config import Chain, Config, Rule
from chainwatch.model.plain_file import text_of

ReadScript = Callable[[Path], str | None]
"""The text of a batch script; None where it cannot be read now."""


def at_once(path: Path) -> str | None:
    """A `ReadScript` for commands: a person waits in front of it."""
    try:
        return text_of(path)
    except OSError:
        return None


def one_job_at_a_time(read: ReadScript, only: str | None = None) -> Rule:
    """No script asks for an array whose tasks run side by side; `only`: the one of this chain.

    A script that cannot be read is no reason to refuse a configuration, nor is a pinned one: the kept copy is what runs.
    Both are judged before each submission.
    """

    def rule(config: Config) -> Iterator[tuple[tuple[str | int, ...], str]]:
        text_at = cache(read)  # a thousand chains share one script
        for name, chain in config.chains.items():
            counts = only in (None, name) and chain.script == "live" and not _has_own_array(chain)
            text = text_at(chain.batch) if counts else None
            if text and (why := beforehand.parallel(beforehand.submitted_with(chain, text, "array"))):
                line = options.script_line(text, "array")
                yield ("chains", name, "batch"), f"{chain.batch}:{line}: {why}"

    return rule


def _has_own_array(chain: Chain) -> bool:
    """The chain's own options say which array it is: the script's does not count, and those are judged by themselves."""
    try:
        return options.last(options.parse(chain.sbatch).options, "array") is not None
    except ValueError:
        return False


def warnings(config: Config) -> list[str]:
    """What is no mistake of the configuration and will get in a job's way all the same."""
    found = []
    reading = cache(_text_or_why)
    for name, chain in config.chains.items():
        text, why = reading(chain.batch)
        if why:
            found.append(f"{name}: the batch script {chain.batch} {why}")
            continue
        if missing := beforehand.missing_log_directories(chain, text, str(chain.directory)):
            found.append(f"{name}: {beforehand.without_logs(missing)}")
        if said := beforehand.prints_the_mark(chain, text):
            found.append(f"{name}: {said}")
    return found


def _text_or_why(path: Path) -> tuple[str, str]:
    try:
        return text_of(path), ""
    except OSError as error:
        return "", f"cannot be read: {error.strerror}" if os.path.exists(path) else "is not there"
