"""From files to a `Config`: defaults, sweeps, relative paths, and every error at once."""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainwatch.config import shape, sweep
from chainwatch.config.document import STAND_IN, ConfigError, Problem, Tree, read
from chainwatch.config.judge import DEFAULTS, Rule, judged
from chainwatch.config.models import Chain, Config
from chainwatch.config.values import literal_path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A chain's name: safe in file names, job names, comments and metrics."""
NAME_RULE = "letters, digits, `.`, `_` and `-` make a chain's name, a letter or digit first, 100 at most"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the files that it was read from."""

    config: Config
    files: tuple[Path, ...]


def load(path: Path, rules: Iterable[Rule] = ()) -> LoadedConfig:
    """Read a file, or every *.yaml and *.yml of a directory (in the order of their names, joined).

    `defaults` of a file are merged into that file's chains only. Relative paths are relative to the file; a chain's
    `checkpoints.directory`, `logs.files` and `done` to the chain's directory. Raises ConfigError with all problems.
    """
    path = Path(os.path.abspath(os.path.expanduser(path)))
    files = _files(path)
    problems: list[Problem] = []
    whole = Tree({"chains": Tree({}, str(path), 1, "chains")}, str(path), 1)
    for file in files:
        try:
            _join(whole, _File(file, problems).expanded(read(file, problems)), problems)
        except ConfigError as e:
            problems += e.problems
    config, found = judged(whole, rules, problems)
    problems += found
    if problems or config is None:
        raise ConfigError(sorted(dict.fromkeys(problems), key=lambda p: (p.file, p.line or 0, p.key)))
    return LoadedConfig(config, tuple(files))


def _files(path: Path) -> list[Path]:
    if not os.path.isdir(path):
        return [path]
    try:
        found = sorted(p for p in path.iterdir() if p.suffix in {".yaml", ".yml"} and not p.name.startswith("."))
    except OSError as e:
        begin = "; `chainwatch init SCRIPT` writes a first one" if isinstance(e, FileNotFoundError) else ""
        raise ConfigError([Problem(str(path), None, "", f"cannot be read: {e.strerror}{begin}")]) from e
    if not found:
        raise ConfigError([Problem(str(path), None, "", "holds no *.yaml file")])
    return found


class _File:
    """One file's tree on its way to the models."""

    def __init__(self, file: Path, problems: list[Problem]) -> None:
        self._folder = file.parent
        self._base = literal_path(file.parent)
        self._problems = problems

    def expanded(self, tree: Tree) -> Tree:
        """The tree with its defaults and sweeps worked in, and its relative paths made absolute."""
        top: dict[str, Tree] = dict(tree.value)
        defaults = self._mapping(top.pop("defaults", None))
        chains = self._mapping(top.pop("chains", None))
        whole = _absolute(tree.with_value(top), Config, self._base)
        made: dict[str, Tree] = {}
        for name, chain in chains.value.items() if chains else ():
            mapping = self._mapping(chain)
            if mapping is None and chain.value is not None:
                continue
            own = mapping or chain.with_value({})
            merged = own if defaults is None else _merged(defaults, own, Chain)
            again = STAND_IN in name  # a chain of this name is there already, and makes the sweep's own mistakes
            swept = [] if again else sweep.expand(name, merged, self._folder, self._problems)
            for one, settings in swept:
                self._add(made, one, settings)
            if not swept:
                _aside(made, name, self._unfinished(merged))
        if defaults is not None:
            _aside(made, DEFAULTS, self._unfinished(defaults, more=True))
        whole.value["chains"] = (chains or tree).with_value(made)
        return whole

    def _mapping(self, tree: Tree | None) -> Tree | None:
        """The tree if it is a mapping; None where nothing is written, and, with a problem, where something else is."""
        if tree is None or isinstance(tree.value, dict):
            return tree
        if tree.value is not None:
            self._problems.append(tree.problem("keys and values are expected"))
        return None

    def _add(self, made: dict[str, Tree], name: str, settings: Tree) -> None:
        if not NAME.fullmatch(name):
            self._problems.append(settings.problem(f"{NAME_RULE}; not {name!r}"))
        elif name in made:
            self._problems.append(settings.problem(f"the name {name} is made twice: put every `{{key}}` into it"))
        _aside(made, name, self._chain(settings))

    def _unfinished(self, settings: Tree, *, more: bool = False) -> Tree:
        """A chain that cannot be made: what is wrong with it beside that is told at once. `more`: others add to it."""
        whole = self._chain(settings)
        whole.value.pop("each", None)
        if more:
            whole.value.setdefault("batch", settings.with_value(self._base))
        return sweep.unfinished(whole, more=more)

    def _chain(self, settings: Tree) -> Tree:
        """A chain with absolute paths: its directory is that of the file unless it says otherwise."""
        parts = dict(settings.value)
        directory = parts.pop("directory", None) or settings.with_value(self._base)
        directory = _absolute(directory, Path, self._base)
        inner = parts.pop("checkpoints", None)
        whole = _absolute(settings.with_value(parts), Chain, self._base)
        whole.value["directory"] = directory
        if inner is not None:
            base = directory.value if isinstance(directory.value, str) else self._base
            whole.value["checkpoints"] = _absolute(inner, Chain.model_fields["checkpoints"].annotation, base)
        environment = parts.get("environment")
        if environment is not None and environment.value not in ("captured", "login", "clean"):
            whole.value["environment"] = _absolute(environment, Path, self._base)
        return whole


def _merged(base: Tree, over: Tree, annotation: Any) -> Tree:
    """`over` with what only `base` says. Sections are merged, also where one of the two is written in short
    (`checkpoints: runs/a`); anything else, lists too, is replaced; an empty value takes the default away."""
    if shape.sections(annotation) and over.value is not None:
        base, over = _long(base, annotation), _long(over, annotation)
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    both = dict(base.value)
    for key, value in over.value.items():
        both[key] = _merged(both[key], value, shape.below(annotation, key)) if key in both else value
    return over.with_value(both)


def _long(tree: Tree, annotation: Any) -> Tree:
    """A section written in short, in full."""
    key = shape.shorthand(annotation)
    if key is None or tree.value is None or isinstance(tree.value, dict):
        return tree
    return tree.with_value({key: tree})


def _absolute(tree: Tree, annotation: Any, folder: str) -> Tree:
    """The tree with each relative path in it taken from `folder` (as a configuration writes it). `~` and `$VARIABLES`
    are left to the models."""
    if annotation is None:
        return tree
    tree = _long(tree, annotation)
    if isinstance(tree.value, dict):
        return tree.with_value(
            {key: _absolute(value, shape.below(annotation, key), folder) for key, value in tree.value.items()}
        )
    if not isinstance(tree.value, str) or not shape.is_path(annotation) or not tree.value.strip():
        return tree
    if re.match(r"~|\$(?!\$)", tree.value) or "://" in tree.value or tree.value in _words(annotation):
        return tree
    path = tree.with_value(os.path.normpath(os.path.join(folder, tree.value)))
    path.word = tree.word
    return path


def _words(annotation: Any) -> tuple[Any, ...]:
    """What may stand in place of a path, such as `off`."""
    return tuple(
        word
        for part in typing.get_args(annotation)
        if typing.get_origin(part) is typing.Literal
        for word in typing.get_args(part)
    )


def _aside(made: dict[str, Tree], name: str, chain: Tree) -> None:
    """Add a chain; where its name is taken, in a place of its own, so that it is judged too."""
    made[f"{name.partition(STAND_IN)[0]}{STAND_IN}{len(made)}" if name in made else name] = chain


def _join(whole: Tree, one: Tree, problems: list[Problem]) -> None:
    """Add one file to what the earlier ones said. Two may say the same, never something different."""
    for key, value in one.value.items():
        if key == "chains":
            known = whole.value["chains"].value
            for name, chain in value.value.items():
                if name in known and STAND_IN not in name:
                    problems.append(chain.problem(f"is defined in {known[name].file}:{known[name].line} too"))
                _aside(known, name, chain)
        elif key in whole.value and whole.value[key].plain() != value.plain():
            other = whole.value[key]
            problems.append(value.problem(f"contradicts {other.file}:{other.line}"))
        else:
            whole.value[key] = value
