"""YAML as a tree that knows where each value stands, so that every complaint can name file, line and key.

YAML 1.1 reads some plain words as something else: `no` as false, `010` as eight, `22:30` as 1350, `2026-09-01` as a
date. Here a time and a date stay the words that they are, an octal number is refused, and every other scalar keeps the
word that was written, which `load` takes wherever a text is expected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chainwatch.model.plain_file import open_plain

_MOST_NODES = 100_000
_MOST_DEPTH = 50
MOST_BYTES = 4 << 20
_TAG = "tag:yaml.org,2002:"
STAND_IN = "\0"
"""Divides a chain's name from a number where the name is taken: the chain is judged all the same. No name holds it."""
_SCALARS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "value"))
_OCTAL = re.compile(r"[-+]?0[0-9_]+")


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
    """dict[str, Tree], list[Tree], or a scalar."""
    file: str
    line: int
    key: str = ""
    """The path of its key as written: a value that came from `defaults` says so."""
    word: str | None = None
    """A scalar as it is written in the file."""
    as_word: bool = False
    """Take the word: a text is expected here, whatever YAML made of it."""
    unfinished: bool = False
    """Something is still to come into it (the value of a `{placeholder}`, what chains add to defaults)."""

    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.word if self.as_word else self.value

    def at(self, path: tuple[Any, ...]) -> Tree:
        """The value at this path. Parts that the tree does not have are passed over: the nearest value above."""
        here = self
        for part in path:
            if part in here:
                here = here.value[part]
        return here

    def __contains__(self, part: Any) -> bool:
        if isinstance(self.value, list):
            return isinstance(part, int) and 0 <= part < len(self.value)
        return isinstance(self.value, dict) and part in self.value

    def scalars(self) -> Iterator[Tree]:
        """All plain values in it."""
        if isinstance(self.value, (dict, list)):
            for inner in self.value.values() if isinstance(self.value, dict) else self.value:
                yield from inner.scalars()
        else:
            yield self

    def with_value(self, value: Any) -> Tree:
        """Another value in the same place."""
        return Tree(value, self.file, self.line, self.key)

    def problem(self, message: str) -> Problem:
        """A problem with this value."""
        return Problem(self.file, self.line, self.key, message)


def read(path: Path, problems: list[Problem]) -> Tree:
    """Read one YAML file. What is wrong with single values is added to `problems`, and the rest is read all the same;
    raises ConfigError where it is no YAML at all."""
    try:
        with os.fdopen(open_plain(path), "rb") as f:
            raw = f.read(MOST_BYTES + 1)
    except OSError as e:
        begin = "; `chainwatch init SCRIPT` writes a first one" if isinstance(e, FileNotFoundError) else ""
        raise ConfigError([Problem(str(path), None, "", f"cannot be read: {e.strerror}{begin}")]) from e
    return parse(raw, str(path), problems)


def parse(raw: bytes, name: str, problems: list[Problem]) -> Tree:
    """As `read`, of a file called `name` that was read already (as far as one byte more than `MOST_BYTES`)."""
    text = _text(raw, name)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Tree({}, name, 1)
        tree = _Builder(loader, name, problems).build(node, ())
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise ConfigError([Problem(name, mark.line + 1 if mark else None, "", _syntax(e, text))]) from e
    except yaml.reader.ReaderError as e:
        line = text.count("\n", 0, e.position) + 1
        raise ConfigError([Problem(name, line, "", f"holds the control character U+{e.character:04X}")]) from e
    except (RecursionError, _TooMuch) as e:
        said = str(e) if isinstance(e, _TooMuch) else "its values are nested too deeply"
        raise ConfigError([Problem(name, None, "", f"is no configuration: {said}")]) from e
    if not isinstance(tree.value, dict):
        raise ConfigError([tree.problem("keys and values are expected at the top (`chains:` …)")])
    return tree


def _text(raw: bytes, name: str) -> str:
    if len(raw) > MOST_BYTES:
        raise ConfigError([Problem(name, None, "", "is larger than 4 MiB: this is no configuration")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise ConfigError([Problem(name, line, "", "is not UTF-8 text here")]) from e


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    """What is wrong, in words for people who do not know how a YAML parser works."""
    said = " ".join(x for x in (error.context, error.problem) if x)
    lines = text.splitlines()
    mark = error.problem_mark
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\\t" in said or "'\t'" in said or re.match(r" *\t", line):
        return "a tab indents here; YAML allows only spaces"
    if "could not find expected ':'" in said:
        return "is no valid YAML: a `key: value` is expected (is the colon or the blank after it missing?)"
    if "mapping values are not allowed" in said:
        return "is no valid YAML: a second `: ` in one line (put a text that holds one in quotes)"
    if "did not find expected <block end>" in said or "expected <block end>" in said:
        return "is no valid YAML: this line is indented differently from the ones it belongs to"
    if "found undefined alias" in said:
        return f"is no valid YAML: {error.problem}; a text that begins with * needs quotes"
    if "single document" in said:
        return "holds a second document (`---`): one file is one document"
    return f"is no valid YAML: {said}"


def _short(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}…"


class _TooMuch(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """Stops in the middle of a file that is too much, before it is all in memory."""

    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise _TooMuch(f"it holds more than {_MOST_NODES} values; `each` makes many chains of few lines")
        return super().compose_node(parent, index)


class _Builder:
    """Makes the tree of a parsed document. Nothing but plain values is made, whatever the tags say."""

    def __init__(self, loader: _Loader, name: str, problems: list[Problem]) -> None:
        self._loader = loader
        self._name = name
        self._problems = problems
        self._count = 0
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: tuple[str, ...], line: int | None = None) -> Tree:
        self._count += 1
        line = node.start_mark.line + 1 if line is None else line
        if self._count > _MOST_NODES or len(path) > _MOST_DEPTH:
            raise _TooMuch("it expands to more values than any configuration needs (aliases in aliases?)")
        if id(node) in self._open:
            raise _TooMuch(f"an alias in line {line} holds itself")
        self._open.add(id(node))
        try:
            tree = Tree(None, self._name, line, ".".join(path))
            if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
                tree.value = self._mapping(node, path)
            elif isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
                tree.value = [self.build(v, (*path, str(i))) for i, v in enumerate(node.value)]
            elif isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
                tree.value, tree.word = self._scalar(node, tree)
            else:
                tag = node.tag.replace(_TAG, "!!")
                self._problems.append(tree.problem(f"the tag {tag} is not allowed: plain values are enough here"))
        finally:
            self._open.discard(id(node))
        return tree

    def _scalar(self, node: yaml.ScalarNode, tree: Tree) -> tuple[Any, str]:
        """Its value, and the word that was written."""
        kind, word = node.tag.removeprefix(_TAG), self._text(str(node.value), tree)
        if kind in {"timestamp", "value"} or (kind in {"int", "float"} and ":" in word):
            return word, word
        if kind == "int" and _OCTAL.fullmatch(word):
            said = f"YAML reads {word} as an octal number: write it without the leading zero, or in quotes"
            self._problems.append(tree.problem(said))
            return 0, word
        if kind == "str":
            return word, word
        try:
            value = self._loader.construct_object(node)
        except (ValueError, OverflowError):  # `!!int x`, more digits than Python reads
            self._problems.append(tree.problem(f"{_short(word)!r} is no {kind}"))
            return None, word
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self._problems.append(tree.problem(f"{_short(word)} is too large: numbers go as far as 2^63"))
            return 1, word
        return value, word

    def _text(self, text: str, where: Tree) -> str:
        """The text, if a file name, a database and a terminal can hold it: `"\\uD800"` is half a character."""
        try:
            text.encode()
        except UnicodeEncodeError as e:
            half = ord(text[e.start])
            self._problems.append(where.problem(f"\\u{half:04X} alone is half a character: it is no UTF-8 text"))
            return text.encode("utf-8", "replace").decode()
        return text

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _TAG + "merge":
                merged |= {k: v for k, v in self._sources(value_node, path).items() if k not in merged}
                continue
            # A key is what was written: `no`, `1e3` and `2024-01-01` are names here.
            here = Tree(None, self._name, line, ".".join(path))
            key = self._text(str(key_node.value), here) if isinstance(key_node, yaml.ScalarNode) else ""
            if not key:
                self._problems.append(Problem(self._name, line, ".".join(path), "a key must be a plain word"))
            elif STAND_IN in key:
                self._problems.append(
                    Problem(self._name, line, ".".join(path), f"the key {key!r} holds a NUL character")
                )
            elif key in found:
                said = f"is given twice (first in line {found[key].line})"
                self._problems.append(Problem(self._name, line, ".".join((*path, key)), said))
                if path == ("chains",):
                    found[f"{key}{STAND_IN}{line}"] = self.build(value_node, (*path, key), line)
            else:
                found[key] = self.build(value_node, (*path, key), line)
        return {**merged, **found}

    def _sources(self, node: yaml.Node, path: tuple[str, ...]) -> dict[str, Tree]:
        """What `<<: *base` or `<<: [*a, *b]` brings; of the same key the first one counts."""
        together: dict[str, Tree] = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            inner = self.build(source, path)
            if isinstance(inner.value, dict):
                together = {**inner.value, **together}
            else:
                self._problems.append(inner.problem("`<<` merges keys and values only"))
        return together
