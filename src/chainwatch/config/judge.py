"""Every mistake at once: what is wrong with one part of a configuration does not hide what is wrong with another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from chainwatch.config.document import STAND_IN, Problem, Tree
from chainwatch.config.explain import explained
from chainwatch.config.models import Config

Rule = Callable[[Config], Iterable[tuple[tuple[str | int, ...], str]]]
"""A check that a higher room knows (names of formats, patterns of logs …): the path of each wrong value, and what is
wrong with it."""
DEFAULTS = f"{STAND_IN}defaults"
"""Name under which the defaults of a file are judged, whether or not a chain takes them."""
_TOGETHER = ("checkpoints", "sbatch", "standby", "resubmitter")
"""Parts of a chain that are judged together, too: where one is wrong by itself, nothing is said of the others' fit."""


def judged(whole: Tree, rules: Iterable[Rule], known: Iterable[Problem] = ()) -> tuple[Config | None, list[Problem]]:
    """The configuration (or what is right of it), and all its problems beside those `known` from reading it."""
    config, problems = _right(whole)
    if config is None:
        return None, problems
    # A channel that could not be read is no channel that is missing.
    channels_known = not any(p.key.split(".")[0] in {"", "alerts"} for p in (*known, *problems))
    for rule in rules:
        for where, message in rule(config):
            spot = whole.at(where)
            if not spot.unfinished and (channels_known or where[2:3] != ("alerts",)):
                problems.append(spot.problem(message))
    return config, problems


def _right(whole: Tree) -> tuple[Config | None, list[Problem]]:
    """What is right, after the parts that are wrong have been taken out one after another."""
    problems: list[Problem] = []
    plain = whole.plain()
    while True:
        try:
            config = Config.model_validate(plain)
        except ValidationError as error:
            if _as_words(whole, error):
                plain = whole.plain()
                continue
            problems += explained(error, whole)
            taken = [_taken_out(plain, tuple(item["loc"])) for item in error.errors(include_url=False)]
            if not any(taken):
                return None, problems
        else:
            chains = {name: chain for name, chain in config.chains.items() if not name.startswith(STAND_IN)}
            return config.model_copy(update={"chains": chains}), problems


def _as_words(whole: Tree, error: ValidationError) -> bool:
    """Where a text is expected and YAML made a number or a truth of it, take the word as written. Whether any was taken."""
    spots = [whole.at(tuple(i["loc"])) for i in error.errors(include_url=False) if i["type"] == "string_type"]
    words = [s for s in spots if s.word is not None and s.value is not None and not s.as_word]
    for spot in words:
        spot.as_word = True
    return bool(words)


def _taken_out(plain: dict[str, Any], where: tuple[Any, ...]) -> bool:
    """Take the section that holds this place out of a chain, or of the whole. False: there is nothing to take out."""
    if where[:1] != ("chains",) or len(where) < 2:
        return bool(where) and plain.pop(where[0], plain) is not plain
    chain = plain["chains"].get(where[1])
    if not isinstance(chain, dict):
        return plain["chains"].pop(where[1], plain) is not plain
    part = where[2] if len(where) > 2 else None
    if part == "batch":
        chain["batch"] = "/"
        return True
    if part is not None and part not in _TOGETHER:
        chain.pop(part, None)
        return True
    taken = [chain.pop(name, plain) is not plain for name in _TOGETHER]
    return any(taken) or part is not None
