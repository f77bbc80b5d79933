"""The user's own rule: which files a checkpoint must have, and which JSON key must equal its step.

>>> rule = Rule.parse({"checkpoint": "step_{step}", "files": ["model-*.bin", {"glob": "optim-*.pt", "count": 8,
...     "min_bytes": 1000}], "json": [{"file": "state.json", "key": "trainer.step"}]})
>>> rule.files[1].exactly
8
"""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from chainwatch.checkpoints.files import Finding, kind_of
from chainwatch.checkpoints.files.base import grouped
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.model.plain_file import read_plain

TYPED = (".pt", ".pth", ".safetensors", ".json", ".npz", ".npy", ".h5", ".hdf5", ".keras", ".msgpack", ".distcp")
"""Endings that are as good as a promise."""
MAX_JSON = 16 << 20


class FileRule(NamedTuple):
    """Files that must be there."""

    glob: str
    """Relative to the checkpoint; `*` does not cross "/"; `{step}` is filled in."""
    exactly: Optional[int] = None
    """So many of them, no more; None: at least one. In configuration it is called `count`."""
    min_bytes: int = 1
    """Each at least so large."""


class JsonRule(NamedTuple):
    """A key of a JSON file that must equal the step in the checkpoint's name."""

    file: str
    key: str
    """Dots descend: `trainer.step`."""


class Rule(NamedTuple):
    """What a checkpoint of this user is."""

    checkpoint: str
    """Name of its directory or file, with `{step}` where the number is: `step_{step}`, `ckpt-{step}.bin`."""
    files: Tuple[FileRule, ...] = ()
    json: Tuple[JsonRule, ...] = ()

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Rule:
        """A rule from configuration.

        Raises:
            ValueError: with a sentence that names the key.
        """
        unknown = set(value) - {"checkpoint", "files", "json"}
        if unknown:
            raise ValueError(f"custom: no key {sorted(unknown)[0]!r}; there are checkpoint, files, json")
        name = value.get("checkpoint")
        if not isinstance(name, str) or name.count("{step}") != 1 or "/" in name:
            raise ValueError('custom.checkpoint: a name with {step} in it is needed, such as "step_{step}"')
        files = tuple(_file_rule(each, f"custom.files[{at}]") for at, each in enumerate(_list(value, "files")))
        keys = tuple(_json_rule(each, f"custom.json[{at}]") for at, each in enumerate(_list(value, "json")))
        return cls(name, files, keys)

    @classmethod
    def read(cls, given: str) -> Rule:
        """A rule as a command takes it: JSON (it begins with a brace), or the name of a file with JSON or YAML.

        Raises:
            ValueError: with a sentence that says what is wrong.
            OSError: the file cannot be read.
        """
        if given.lstrip().startswith("{"):
            return cls.parse(_document(given, "the rule"))
        return cls.parse(_document(read_plain(given, MAX_JSON).decode("utf-8", "replace"), given))

    def step(self, name: str) -> Optional[int]:
        """The step in a name that is a checkpoint's by this rule, else None."""
        before, _, after = self.checkpoint.partition("{step}")
        match = re.match(f"{fnmatch.translate(before)[:-2]}(\\d{{1,18}}){fnmatch.translate(after)}", name)
        return int(match.group(1)) if match else None


def _document(text: str, name: str) -> Mapping[str, Any]:
    """The mapping in a text: JSON anywhere, YAML where it can be read."""
    value: Any
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            import yaml
        except ImportError:
            raise ValueError(f"{name} is no JSON, and YAML cannot be read here (PyYAML is not installed)") from None
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError):
            raise ValueError(f"{name} is neither JSON nor YAML") from None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name}: a mapping with checkpoint, files, json is needed")
    return value


def _list(value: Mapping[str, Any], key: str) -> List[Any]:
    found = value.get(key) or []
    if isinstance(found, (str, dict)):
        return [found]
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"custom.{key}: a list is needed")
    return list(found)


def _file_rule(value: Any, where: str) -> FileRule:
    if isinstance(value, str):
        return FileRule(_inside(value, where))
    if not isinstance(value, Mapping) or set(value) - {"glob", "count", "min_bytes"} or "glob" not in value:
        raise ValueError(f"{where}: a glob, or glob with count and min_bytes, is needed")
    count, least = value.get("count"), value.get("min_bytes", 1)
    if count is not None and (not isinstance(count, int) or count < 1):
        raise ValueError(f"{where}.count: a number of at least 1 is needed")
    if not isinstance(least, int) or least < 0:
        raise ValueError(f"{where}.min_bytes: a number of bytes is needed")
    return FileRule(_inside(value["glob"], where), count, least)


def _json_rule(value: Any, where: str) -> JsonRule:
    if not isinstance(value, Mapping) or set(value) != {"file", "key"}:
        raise ValueError(f"{where}: file and key are needed")
    return JsonRule(_inside(value["file"], where), str(value["key"]))


def _inside(path: Any, where: str) -> str:
    if not isinstance(path, str) or not path or path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{where}: a path inside the checkpoint is needed")
    return path


class Custom(Layout):
    """Checkpoints as one rule says."""

    name = "custom"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def owns(self, folder: Folder) -> bool:
        return self.rule.step(folder.name) is not None

    def named(self, name: str) -> bool:
        return self.rule.step(name) is not None

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        step = self.rule.step(name)
        return Candidate(self, run, name, step_of(name) if step is None else step, folder)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if self.named(name):
                yield self.candidate(run, name, None)

    def judge(self, candidate: Candidate, look: Look) -> None:
        if candidate.folder is None:
            _file(look, candidate.name)
            self._least(look, candidate.name, max((rule.min_bytes for rule in self.rule.files), default=1))
            return
        judged: Dict[str, bool] = {}
        for rule in self.rule.files:
            pattern = rule.glob.replace("{step}", str(candidate.step))
            names = sorted(_matches(candidate.root, pattern.split("/"), ""))
            if len(names) < (rule.exactly or 1):
                look.missing(pattern, f"{rule.exactly or 'at least 1'} files" if rule.exactly != 1 else "1 file")
            elif rule.exactly is not None and len(names) > rule.exactly:
                look.problem(pattern, "structure", f"{rule.exactly} files", f"{grouped(len(names))}")
            for name in names:
                if name not in judged:
                    judged[name] = _file(look, name).ok
                if judged[name]:
                    self._least(look, name, rule.min_bytes)
        for key in self.rule.json:
            self._equals(look, candidate, key)

    def _least(self, look: Look, name: str, least: int) -> None:
        info = look.candidate.root.stat(name)
        if info is not None and info.st_size < least:
            look.problem(name, "truncated", f"at least {grouped(least)} bytes", f"{grouped(info.st_size)} bytes")

    def _equals(self, look: Look, candidate: Candidate, rule: JsonRule) -> None:
        if not look.has(rule.file):
            look.missing(rule.file)
            return
        text = candidate.root.text(rule.file, MAX_JSON)
        try:
            value: Any = json.loads(text or "")
            for part in rule.key.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
        except (ValueError, LookupError, TypeError, RecursionError):
            look.problem(rule.file, "structure", f"JSON with the key {rule.key}", "none")
            return
        if value != candidate.step:
            look.problem(rule.file, "step", f"{rule.key} {candidate.step}, as in the name", str(value)[:40])


def _file(look: Look, name: str) -> Finding:
    """Look into a file whose first bytes, or whose ending, say what it is; `.bin` may be anything."""
    kind = kind_of("", look.candidate.root.head(name, 16) or b"")
    return look.file(name, None if kind == "raw" and name.endswith(TYPED) else kind)


def _matches(folder: Folder, parts: List[str], where: str) -> Iterable[str]:
    """Files below `folder` that a glob, split at its slashes, means."""
    head, rest = parts[0], parts[1:]
    if not rest:
        for name in folder.files:
            if fnmatch.fnmatchcase(name, head):
                yield where + name
        return
    for name in folder.dirs:
        if fnmatch.fnmatchcase(name, head):
            yield from _matches(folder.sub(name), rest, f"{where}{name}/")
