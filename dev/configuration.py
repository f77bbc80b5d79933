"""The reference of the configuration: every key by its path, from the models and their docstrings."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chainwatch.checkpoints.formats import FORMATS
from chainwatch.config import Config, shape
from chainwatch.config.models import Chain
from chainwatch.config.site import SITE_FILE, Site
from chainwatch.config.values import Duration, ExpandedText, Options, Pattern, StepPattern, Words
from chainwatch.evidence import PROFILES
from chainwatch.model.durations import show_duration

_HEAD = """\
# Configuration

One YAML file, or a directory of `*.yaml` files that are joined. `chainwatch check CONFIG` says everything that is wrong
with it, by file and line; `chainwatch check --schema` prints a JSON Schema, with which editors complete and mark keys.

- Keys that do not exist here are refused, so that a misspelt one is never silently without effect.
- A **duration** is written with its unit: `30s`, `10m`, `1h30m`, `2d`.
- In a **path** `~` and `$VARIABLES` are expanded. Relative paths are relative to the file that they stand in; the
  checkpoints, logs and completion files of a chain to its `directory`.
- A **pattern** is a regular expression in RE2 syntax: no look-around, no back-references, linear time.
- A **text** is taken as it is written: `no`, `1e-4` and `0.10` need no quotes. An octal number (`010`) is refused.
- **Words** are a list, or one line that is split as a shell would split it.
- A section of which most people need one key can be written in short: `checkpoints: runs/a` is
  `checkpoints: {directory: runs/a}`.

## Many chains

`defaults` holds what every chain *of the same file* has unless it says otherwise. Sections are merged key by key, lists
are replaced, and an empty value (`checkpoints:`) takes a default away.

`each` makes many chains of one: of every combination of a `matrix`, or of every row of a `csv` file (whose first line
names the columns). `{column}` is filled in everywhere, the name included; a name without one gets the values appended.

```yaml
defaults:
  batch: train.sbatch
  done: {step: 20000}
chains:
  sweep-lr{lr}-s{seed}:
    args: --lr {lr} --seed {seed} --out runs/{lr}-{seed}
    checkpoints: runs/{lr}-{seed}
    each:
      matrix:
        lr: [1e-4, 3e-4]
        seed: [1, 2, 3]
```

A placeholder that nearly is a column, and a column that is used nowhere, are refused: they would start equal runs.
"""

_EXTRA = {
    Chain: [
        ("each", "`matrix` or `csv`", "", "Makes one chain of every combination or row; see [above](#many-chains).")
    ],
    Config: [("defaults", "a chain's keys", "", "What every chain of this file has, unless it says otherwise.")],
}
_NAMES: Mapping[str, tuple[str, ...]] = {
    "chains.NAME.checkpoints.format": ("auto", *FORMATS, "custom"),
    "chains.NAME.logs.profile": ("auto", *PROFILES),
}
_KINDS: tuple[tuple[Any, str], ...] = (
    (Duration, "duration"),
    (StepPattern, "pattern"),
    (Pattern, "pattern"),
    (Words, "words"),
    (Options, "words"),
    (ExpandedText, "path or glob"),
)
_PLAIN = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    datetime: "moment",
    timedelta: "duration",
    time: "time of day",
    Any: "anything",
}


def page() -> str:
    """The whole page, in Markdown."""
    out = [_HEAD]
    out += _sections(Config, "", "The file")
    out += [
        f"## {SITE_FILE}",
        "",
        "Limits that an administrator writes down and users cannot loosen. The file must belong to root.",
        "",
        *_table(Site),
    ]
    return "\n".join(out)


def _sections(model: type[BaseModel], path: str, title: str, said: frozenset[str] = frozenset()) -> Iterator[str]:
    """One section with all below it; `said` are keys that were shown already."""
    yield from (f"## {title}", "", _first(model), "")
    short = getattr(model, "shorthand", None)
    if short:
        yield from (f"In short: `{path.rpartition('.')[2]}: …` stands for `{short}`.", "")
    yield from _table(model, said)
    inside = [(field, f"{path}.{_key(name, field)}".lstrip(".")) for name, field in model.model_fields.items()]
    for field, here in inside:
        yield from _choices(field, here)
    for field, here in sorted(inside, key=lambda one: one[1] != "chains"):  # the chains are what people come for
        for models, where in _inside(field.annotation, here):
            yield from _variants(models, where)


def _variants(models: tuple[type[BaseModel], ...], where: str) -> Iterator[str]:
    """A section; where it has several types, first what they all have."""
    if len(models) == 1:
        yield from _sections(models[0], where, f"`{where}`")
    elif models:
        shared = frozenset.intersection(*(frozenset(model.model_fields) for model in models))
        yield from (
            f"## `{where}`",
            "",
            "Every type has:",
            "",
            *_table(models[0], frozenset(models[0].model_fields) - shared),
        )
        for model in models:
            word = typing.get_args(model.model_fields["type"].annotation)[0]
            yield from _sections(model, where, f"`{where}` of `type: {word}`", shared)


def _inside(annotation: Any, path: str) -> Iterator[tuple[tuple[type[BaseModel], ...], str]]:
    """The sections under a key, with their paths."""
    here = shape.sections(annotation)
    yield here, path
    for part, suffix in (("x", ".NAME"), (0, "[]")) if not here else ():
        yield shape.sections(shape.below(annotation, part)), path + suffix


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _table(model: type[BaseModel], said: frozenset[str] = frozenset()) -> Iterator[str]:
    shown = [(n, f) for n, f in model.model_fields.items() if n not in said or n == "type"]
    yield from ("| key | value | default | what |", "| --- | --- | --- | --- |")
    for name, field in shown:
        cells = (_kind(field), _default(field), field.description or "Which kind it is.")
        yield f"| `{_key(name, field)}` | {' | '.join(_cell(c) for c in cells)} |"
    for key, *rest in _EXTRA.get(model, ()):
        yield f"| `{key}` | {' | '.join(rest)} |"
    yield ""


def _kind(field: FieldInfo) -> str:
    annotation = field.rebuild_annotation()
    text = _words(annotation)
    for limit in field.metadata:
        if isinstance(limit, annotated_types.Ge):
            text += f", at least {limit.ge:g}"
        elif isinstance(limit, annotated_types.Gt):
            text += f", more than {limit.gt:g}"
        elif isinstance(limit, annotated_types.Le):
            text += f", at most {limit.le:g}"
    return text


def _words(annotation: Any) -> str:
    for known, word in _KINDS:
        if annotation == known:
            return word
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{word}`" for word in arguments)
    if origin is tuple:
        return f"list: {_words(arguments[0])}"
    if origin is dict:
        return "section by name" if shape.sections(arguments[1]) else "keys and values"
    if arguments:
        return " or ".join(dict.fromkeys(_words(a) for a in arguments if a is not type(None)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return _PLAIN.get(annotation, "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, "") or isinstance(value, BaseModel):
        return ""
    return f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    if isinstance(value, timedelta):
        return show_duration(value)
    if isinstance(value, time):
        return f"{value:%H:%M}"
    if isinstance(value, tuple):
        return f"[{', '.join(_plain(v) for v in value)}]"
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _choices(field: FieldInfo, path: str) -> Iterator[str]:
    """For a choice whose words are explained in the code, and for names that the readers know: a list."""
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        said = _docstrings(kind)
        if len(said) == len(kind):
            yield from (f"`{path}`:", "", *(f"- `{member.value}`: {said[member.name]}" for member in kind), "")
    names = _NAMES.get(path)
    if names:
        yield from (f"`{path}` is one of {', '.join(f'`{name}`' for name in names)}.", "")


def _docstrings(kind: type[Enum]) -> dict[str, str]:
    """The string below each member, which Python itself does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for one, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(one, ast.Assign)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[ast.unparse(one.targets[0])] = " ".join(str(following.value.value).split())
    return found


def _first(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").split("\n\n")[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
