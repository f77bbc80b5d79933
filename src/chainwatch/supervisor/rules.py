"""What is right in a configuration beyond its own room: names and rules that the readers know.

`load(path, RULES)` refuses at once what would otherwise fail at night.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from chainwatch.actions import beforehand, options
from chainwatch.checkpoints.formats import FORMATS
from chainwatch.checkpoints.formats.custom import Rule as CustomRule
from chainwatch.config import Chain, Config, Rule
from chainwatch.evidence import PROFILES
from chainwatch.signatures import SignatureError, user_signatures
from chainwatch.supervisor.scripts import ReadScript, at_once, one_job_at_a_time

_NEVER = {
    "--test-only": "it would submit nothing",
    "--help": "it would submit nothing",
    "--usage": "it would submit nothing",
    "--version": "it would submit nothing",
    "--wait": "chainwatch would wait with it",
    "-W": "chainwatch would wait with it",
    "--wrap": "name a script by `batch`",
}

Found = Iterator[tuple[tuple[str | int, ...], str]]


def _chains(config: Config) -> Found:
    signatures = cache(_signatures)  # 200 chains share one file: read it once
    for name, chain in config.chains.items():
        found = (*_checkpoints(chain), *_logs(chain, signatures), *_options(chain), *_channels(chain, config))
        for where, message in found:
            yield ("chains", name, *where), message


def _checkpoints(chain: Chain) -> Found:
    found = chain.checkpoints
    if found is None:
        return
    names = ("auto", "custom", *FORMATS)
    if found.format not in names:
        yield ("checkpoints", "format"), _unknown("checkpoint format", found.format, names)
    if found.format == "custom" and found.custom is None:
        yield ("checkpoints", "format"), "custom needs a rule under `custom:` (which files a checkpoint must have)"
    elif found.format != "custom" and found.custom is not None:
        yield ("checkpoints", "custom"), "is used with `format: custom` only"
    elif found.custom is not None:
        try:
            CustomRule.parse(found.custom)
        except ValueError as error:
            yield ("checkpoints", "custom"), str(error)


def _logs(chain: Chain, signatures: Callable[[Path], str]) -> Found:
    if chain.logs.profile not in ("auto", *PROFILES):
        yield ("logs", "profile"), _unknown("progress profile", chain.logs.profile, ("auto", *PROFILES))
    if chain.logs.signatures is not None:
        problem = signatures(chain.logs.signatures)
        if problem:
            yield ("logs", "signatures"), problem


def _signatures(path: Path) -> str:
    """What is wrong with the user's signature file; empty if nothing is."""
    try:
        user_signatures(path)
    except SignatureError as error:
        return f"cannot be used: {error}"
    return ""


def _options(chain: Chain) -> Found:
    for where, given in (
        (("sbatch",), chain.sbatch),
        (("recovery", "sbatch"), chain.recovery.sbatch),
        (("recovery", "fallback_sbatch"), chain.recovery.fallback_sbatch),
    ):
        for option in given:
            why = _NEVER.get(option.split("=")[0])
            if why:
                yield where, f"{option} does not belong here: {why}"
        try:
            array = options.last(options.parse(given).options, "array")
        except ValueError:
            continue
        if why := beforehand.parallel(array):
            yield where, why


def _channels(chain: Chain, config: Config) -> Found:
    for name in chain.alerts or ():
        if name not in config.alerts.channels:
            yield ("alerts",), _unknown("alert channel", name, tuple(config.alerts.channels))


def _unknown(what: str, name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    said = f"no {what} is called {name!r}"
    if near:
        return f"{said}; did you mean `{near[0]}`?"
    return f"{said}; there are {', '.join(known)}" if known else f"{said}; none is configured"


RULES: tuple[Rule, ...] = (_chains,)
"""What a configuration says of itself."""


def with_scripts(read: ReadScript = at_once, only: str | None = None) -> tuple[Rule, ...]:
    """And what the batch scripts bring in, or that of one chain. They are edited at any time, so that only who asks for a
    judgement of the whole (`check`, a reload) is refused for any of them; `read`: how they are read, since a daemon must
    not wait for storage."""
    return *RULES, one_job_at_a_time(read, only)
