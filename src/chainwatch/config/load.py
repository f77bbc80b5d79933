"""From files to a `Config`: defaults, sweeps, paths, and every error with file, line, key and what was expected."""

from __future__ import annotations

import csv
import difflib
import itertools
import os
import re
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from chainwatch.config.document import ConfigError, Problem, Tree, read
from chainwatch.config.models import Chain, Config

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_CHAINS = 10_000


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the files that it was read from."""

    config: Config
    files: tuple[Path, ...]


def load(path: Path) -> LoadedConfig:
    """Read a file, or every *.yaml and *.yml of a directory (in the order of their names, joined).

    Raises ConfigError with all problems at once.
    """
    path = Path(os.path.abspath(os.path.expanduser(path)))
    files = _files(path)
    problems: list[Problem] = []
    whole = Tree({"chains": Tree({}, str(path), 1)}, str(path), 1)
    for file in files:
        try:
            _join(whole, _expanded(read(file), file, problems), problems)
        except ConfigError as e:
            problems += e.problems
    if problems:
        raise ConfigError(problems)
    try:
        config = Config.model_validate(whole.plain())
    except ValidationError as e:
        raise ConfigError(_explained(e, whole)) from e
    return LoadedConfig(config, tuple(files))


def schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, `defaults` and `each` included."""
    whole = Config.model_json_schema()
    chain = whole["$defs"]["Chain"]
    partial = {
        **chain,
        "title": "Defaults",
        "description": "What every chain of this file has, unless it says otherwise.",
    }
    partial.pop("required", None)
    chain["properties"]["each"] = {
        "description": "Makes one chain of each combination (matrix) or row (csv); {key} is filled in everywhere.",
        "type": "object",
        "properties": {
            "matrix": {"type": "object", "additionalProperties": {"type": "array"}},
            "csv": {"type": "string"},
        },
        "additionalProperties": False,
    }
    chain.pop("required", None)  # `batch` may come from `defaults`
    whole["properties"]["defaults"] = partial
    return whole


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(p for p in path.iterdir() if p.suffix in {".yaml", ".yml"} and not p.name.startswith("."))
    except OSError as e:
        raise ConfigError([Problem(str(path), None, "", f"cannot be read: {e.strerror}")]) from e
    if not found:
        raise ConfigError([Problem(str(path), None, "", "holds no *.yaml file")])
    return found


def _expanded(tree: Tree, file: Path, problems: list[Problem]) -> Tree:
    """One file's tree with its defaults and sweeps worked in, and its relative paths made absolute."""
    top: dict[str, Tree] = dict(tree.value)
    defaults = top.pop("defaults", None)
    if defaults is not None and not isinstance(defaults.value, dict):
        problems.append(Problem(str(file), defaults.line, "defaults", "keys and values are expected"))
        defaults = None
    chains = top.get("chains")
    if chains is None or chains.value is None:
        top["chains"] = Tree({}, str(file), 1)
        return _based(Tree(top, tree.file, tree.line), file)
    if not isinstance(chains.value, dict):
        problems.append(Problem(str(file), chains.line, "chains", "the chains by name are expected"))
        top["chains"] = Tree({}, str(file), 1)
        return Tree(top, tree.file, tree.line)
    made: dict[str, Tree] = {}
    for name, chain in chains.value.items():
        whole = chain
        if chain.value is None:
            whole = Tree({}, chain.file, chain.line)
        if not isinstance(whole.value, dict):
            problems.append(Problem(str(file), chain.line, f"chains.{name}", "the chain's settings are expected"))
            continue
        if defaults is not None:
            whole = _merged(defaults, whole)
        for each_name, each_chain in _each(name, whole, file, problems):
            if not _NAME.fullmatch(each_name):
                what = (
                    "a chain's name has letters, digits, `.`, `_` and `-`, starts with a letter or digit, at most 100"
                )
                problems.append(Problem(str(file), chain.line, f"chains.{each_name}", what))
            elif each_name in made:
                problems.append(Problem(str(file), chain.line, f"chains.{each_name}", "this name is made twice"))
            else:
                made[each_name] = _chain_paths(each_chain, file)
    top["chains"] = Tree(made, chains.file, chains.line)
    return _based(Tree(top, tree.file, tree.line), file)


def _merged(base: Tree, over: Tree) -> Tree:
    """`over` with what only `base` says; mappings are merged, everything else replaced."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    both = dict(base.value)
    for key, value in over.value.items():
        both[key] = _merged(both[key], value) if key in both else value
    return Tree(both, over.file, over.line)


def _each(name: str, chain: Tree, file: Path, problems: list[Problem]) -> list[tuple[str, Tree]]:
    settings = dict(chain.value)
    each = settings.pop("each", None)
    rest = Tree(settings, chain.file, chain.line)
    if each is None:
        return [(name, rest)]
    where = f"chains.{name}.each"
    rows = _rows(each, where, file, problems)
    made = []
    for row in rows[:_MOST_CHAINS]:
        filled = _fill(name, row)
        if filled == name and len(rows) > 1:
            filled = "-".join([name, *(re.sub(r"[^A-Za-z0-9._-]+", "_", v) for v in row.values())])
        made.append((filled, _filled(rest, row)))
    if len(rows) > _MOST_CHAINS:
        problems.append(Problem(str(file), each.line, where, f"makes {len(rows)} chains; {_MOST_CHAINS} are the most"))
    return made


def _rows(each: Tree, where: str, file: Path, problems: list[Problem]) -> list[dict[str, str]]:
    def wrong(message: str, line: int = each.line) -> list[dict[str, str]]:
        problems.append(Problem(each.file, line, where, message))
        return []

    kind = each.plain()
    if not isinstance(kind, dict) or len(kind) != 1 or not set(kind) <= {"matrix", "csv"}:
        return wrong("either `matrix:` (lists of values by name) or `csv:` (a file) is expected")
    if "matrix" in kind:
        matrix = kind["matrix"]
        if not isinstance(matrix, dict) or not all(isinstance(v, list) and v for v in matrix.values()) or not matrix:
            return wrong("`matrix:` needs a list of values for each name")
        return [dict(zip(matrix, map(_word, values), strict=True)) for values in itertools.product(*matrix.values())]
    path = file.parent / os.path.expanduser(str(kind["csv"]))
    try:
        with path.open(newline="", encoding="utf-8-sig") as f:
            rows = list(csv.DictReader(f, restkey="", restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        return wrong(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}")
    if not rows:
        return wrong(f"{path} has no rows below its header")
    if any("" in row for row in rows):
        return wrong(f"{path}: a row has more columns than the header")
    return [{k: (v or "").strip() for k, v in row.items()} for row in rows]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fill(text: str, row: dict[str, str]) -> str:
    """`{key}` of known keys only: `{path}` of an argument template is left for later."""
    return re.sub(r"\{(\w+)\}", lambda m: row.get(m[1], m[0]), text)


def _filled(tree: Tree, row: dict[str, str]) -> Tree:
    value = tree.value
    if isinstance(value, dict):
        return Tree({k: _filled(v, row) for k, v in value.items()}, tree.file, tree.line)
    if isinstance(value, list):
        return Tree([_filled(v, row) for v in value], tree.file, tree.line)
    return Tree(_fill(value, row), tree.file, tree.line) if isinstance(value, str) else tree


def _chain_paths(chain: Tree, file: Path) -> Tree:
    """The working directory is that of the file unless it is given; the script is looked for beside the file."""
    settings = dict(chain.value)
    directory = settings.get("directory")
    base = str(file.parent)
    if directory is None:
        settings["directory"] = Tree(base, str(file), chain.line)
    else:
        settings["directory"] = _absolute(directory, base)
    for key in ("batch",):
        if key in settings:
            settings[key] = _absolute(settings[key], base)
    logs = settings.get("logs")
    if logs is not None and isinstance(logs.value, dict) and "signatures" in logs.value:
        inner = {**logs.value, "signatures": _absolute(logs.value["signatures"], base)}
        settings["logs"] = Tree(inner, logs.file, logs.line)
    return Tree(settings, chain.file, chain.line)


def _based(tree: Tree, file: Path) -> Tree:
    top = dict(tree.value)
    if "state" in top:
        top["state"] = _absolute(top["state"], str(file.parent))
    return Tree(top, tree.file, tree.line)


def _absolute(tree: Tree, base: str) -> Tree:
    if not isinstance(tree.value, str) or not tree.value.strip() or tree.value.lstrip().startswith(("~", "$")):
        return tree
    return Tree(os.path.normpath(os.path.join(base, tree.value)), tree.file, tree.line)


def _join(whole: Tree, one: Tree, problems: list[Problem]) -> None:
    for key, value in one.value.items():
        if key == "chains":
            for name, chain in value.value.items():
                known = whole.value["chains"].value.get(name)
                if known is not None:
                    said = f"is defined in {known.file}:{known.line} too"
                    problems.append(Problem(chain.file, chain.line, f"chains.{name}", said))
                whole.value["chains"].value[name] = chain
        elif key in whole.value and whole.value[key].plain() != value.plain():
            known = whole.value[key]
            problems.append(Problem(value.file, value.line, key, f"contradicts {known.file}:{known.line}"))
        else:
            whole.value[key] = value


def _explained(error: ValidationError, whole: Tree) -> list[Problem]:
    problems = []
    for item in error.errors(include_url=False, include_context=False):
        path = tuple(item["loc"])
        spot = whole.at(path)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = "is not a known key"
            near = difflib.get_close_matches(str(path[-1]), _keys(path[:-1]), n=1, cutoff=0.6)
            if near:
                message += f"; did you mean `{near[0]}`?"
        elif item["type"] == "missing":
            message = "is required"
        elif item["type"] != "value_error":
            message = f"{message[0].lower()}{message[1:]}"
            if path[0] != "alerts":  # where somebody may have pasted a secret
                message += f", not {_shown(item.get('input'))}"
        key = ".".join(str(p) for p in path if not str(p).startswith(("function-", "tagged-", "literal")))
        problems.append(Problem(spot.file, spot.line, key, message))
    return sorted(problems, key=lambda p: (p.file, p.line or 0))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _keys(path: tuple[Any, ...]) -> list[str]:
    """The keys that the section at this path knows."""
    model: Any = Config
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            field = model.model_fields.get(str(part))
            model = None if field is None else _inner(field.annotation)
        elif model is Chain or model is None:
            break
    if path[:1] == ("chains",) and len(path) > 1:
        model = Chain
        for part in path[2:]:
            field = (
                model.model_fields.get(str(part)) if isinstance(model, type) and issubclass(model, BaseModel) else None
            )
            model = None if field is None else _inner(field.annotation)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [*model.model_fields, *(["each"] if model is Chain else ["defaults"] if model is Config else [])]
    return []


def _inner(annotation: Any) -> Any:
    """The section inside `Section | None` or `dict[str, Section]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        for part in typing.get_args(annotation):
            found = _inner(part)
            if found is not None:
                return found
    return None
