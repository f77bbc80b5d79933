"""YAML as a tree that knows where each value stands, so that every complaint can name file and line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_MOST_NODES = 100_000
_MOST_DEPTH = 60
_MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration."""

    file: str
    line: int | None
    key: str
    """The key's path: `chains.pretrain.recovery.retries`."""
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigError(Exception):
    """A configuration that cannot be used: all its problems at once."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


@dataclass(slots=True)
class Tree:
    """One value and where it stands: a mapping, a list, or a plain value."""

    value: Any
    """dict[str, Tree], list[Tree], or a scalar"""
    file: str
    line: int

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.value

    def at(self, path: tuple[Any, ...]) -> Tree:
        """The value at this path, or the nearest one above it."""
        here = self
        for part in path:
            inner = here.value
            known = range(len(inner)) if isinstance(inner, list) else inner if isinstance(inner, dict) else ()
            if part in known:
                here = inner[part]
        return here


def read(path: Path) -> Tree:
    """Read one YAML file. Raises ConfigError with every problem of its syntax."""
    name = str(path)
    try:
        with path.open("rb") as f:
            raw = f.read(_MOST_BYTES + 1)
    except OSError as e:
        raise ConfigError([Problem(name, None, "", f"cannot be read: {e.strerror}")]) from e
    if len(raw) > _MOST_BYTES:
        raise ConfigError([Problem(name, None, "", "is larger than 8 MiB: this is no configuration")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise ConfigError([Problem(name, line, "", "is not UTF-8 text here")]) from e
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Tree({}, name, 1)
        problems: list[Problem] = []
        tree = _Builder(loader, name, problems).build(node, ())
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        said = " ".join(x for x in (e.context, e.problem) if x)
        if "\\t" in said or "'\t'" in said:
            said = "a tab stands where only spaces may indent"
        raise ConfigError([Problem(name, mark.line + 1 if mark else None, "", f"is no valid YAML: {said}")]) from e
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise ConfigError([Problem(name, None, "", f"is no valid YAML: {e}")]) from e
    finally:
        loader.dispose()
    if not isinstance(tree.value, dict):
        problems.append(Problem(name, tree.line, "", "keys and values are expected at the top (`chains:` …)"))
    if problems:
        raise ConfigError(problems)
    return tree


class _Builder:
    def __init__(self, loader: yaml.SafeLoader, name: str, problems: list[Problem]) -> None:
        self._loader = loader
        self._name = name
        self._problems = problems
        self._count = 0
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: tuple[str, ...]) -> Tree:
        self._count += 1
        line = node.start_mark.line + 1
        if self._count > _MOST_NODES or len(path) > _MOST_DEPTH:
            raise ValueError("it expands to more values than any configuration needs (aliases in aliases?)")
        if id(node) in self._open:
            raise ValueError(f"line {line}: an alias that holds itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return Tree(self._mapping(node, path), self._name, line)
            if isinstance(node, yaml.SequenceNode):
                return Tree([self.build(v, (*path, str(i))) for i, v in enumerate(node.value)], self._name, line)
        finally:
            self._open.discard(id(node))
        return Tree(self._loader.construct_object(node), self._name, line)

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in sources:
                    inner = self.build(source, path)
                    if isinstance(inner.value, dict):
                        merged = {**inner.value, **merged}
                continue
            # A key is what was written: `no`, `1e3` and `2024-01-01` are names here.
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            line = key_node.start_mark.line + 1
            if not key:
                self._problems.append(Problem(self._name, line, ".".join(path), "a key must be a plain word"))
                continue
            if key in found:
                where = found[key].line
                self._problems.append(
                    Problem(self._name, line, ".".join((*path, key)), f"is given twice (first in line {where})")
                )
                continue
            value = self.build(value_node, (*path, key))
            found[key] = Tree(value.value, value.file, line)
        return {**merged, **found}
