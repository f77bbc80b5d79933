"""What pydantic found, said to people: file, line, key, what is expected, and what was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from chainwatch.config import shape
from chainwatch.config.document import STAND_IN, Problem, Tree
from chainwatch.config.foreign import meant
from chainwatch.config.models import Chain, Config

_SECRET = frozenset({"alerts", "web", "database"})
"""Where somebody may have pasted a secret: values from there are not repeated."""

_EXPECTED = {
    "int_parsing": "a whole number is expected",
    "int_parsing_size": "a whole number below 2^63 is expected",
    "int_type": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "float_parsing": "a number is expected",
    "float_type": "a number is expected",
    "finite_number": "a finite number is expected",
    "bool_parsing": "true or false is expected",
    "bool_type": "true or false is expected",
    "string_type": "a text is expected",
    "path_type": "a path is expected",
    "dict_type": "keys and values are expected",
    "model_type": "keys and values are expected",
    "model_attributes_type": "keys and values are expected",
    "tuple_type": "a list is expected",
    "list_type": "a list is expected",
    "time_type": "a time of day like 09:00 or 22:30 is expected",
    "time_parsing": "a time of day like 09:00 or 22:30 is expected",
    "datetime_type": "a moment like 2026-09-01 or 2026-09-01T18:00+02:00 is expected",
    "datetime_parsing": "a moment like 2026-09-01 or 2026-09-01T18:00+02:00 is expected",
    "datetime_from_date_parsing": "a moment like 2026-09-01 or 2026-09-01T18:00+02:00 is expected",
}
_LIMITS = {
    "greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most", "less_than": "less than",
}  # fmt: skip


def explained(error: ValidationError, tree: Tree, top: type[BaseModel] = Config) -> list[Problem]:
    """The problems behind a ValidationError of the configuration (a `top`) that `tree` holds, each once.

    A mistake in `defaults` or in a sweep is one mistake, however many chains it reaches.
    """
    found: dict[tuple[str, int | None, str], list[str]] = {}
    for item in error.errors(include_url=False):
        path = tuple(item["loc"])
        spot = tree.at(path)
        if spot.unfinished and (not isinstance(spot.value, dict) or item["type"] in {"missing", "value_error"}):
            continue
        key, message = spot.key, _message(dict(item), path, spot, top)
        if item["type"] == "missing":
            key = f"{key}.{path[-1]}" if key else str(path[-1])
        said = found.setdefault((spot.file, spot.line, key), [])
        if message not in said:
            said.append(message)
    problems = [Problem(*place, _or(messages)) for place, messages in found.items()]
    return sorted(problems, key=lambda p: (p.file, p.line or 0, p.key))


def _or(messages: list[str]) -> str:
    """What several kinds of value expect, as one clause: `a whole number or `auto` is expected, not 'x'`."""
    parts = [message.partition(" is expected") for message in messages]
    if len({rest for _, _, rest in parts}) == 1 and all(said for _, said, _ in parts):
        return " or ".join(what for what, _, _ in parts) + " is expected" + parts[0][2]
    return " or ".join(messages)


def in_words(error: ValidationError, settings: Any, top: type[BaseModel] = Config) -> str:
    """What is wrong with plain settings that stand in no file (options of a command, what the store has), for people."""
    problems = explained(error, _tree(settings, ""), top)
    return "; ".join(f"{p.key}: {p.message}" if p.key else p.message for p in problems)


def _tree(value: Any, key: str) -> Tree:
    if isinstance(value, dict):
        value = {name: _tree(inner, f"{key}.{name}" if key else str(name)) for name, inner in value.items()}
    elif isinstance(value, list):
        value = [_tree(inner, key) for inner in value]
    return Tree(value, "", 0, key)


def _message(item: dict[str, Any], path: tuple[Any, ...], spot: Tree, top: type[BaseModel]) -> str:
    kind, context = item["type"], item.get("ctx") or {}
    if kind == "extra_forbidden":
        return unknown_key(str(path[-1]), path[:-1], top)
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(item["msg"]).removeprefix("Value error, ")
    if kind == "union_tag_not_found":
        return f"needs a {str(context.get('discriminator', 'type')).strip(chr(39))}"
    if kind == "union_tag_invalid":
        return _choice("type", str(context["tag"]), str(context["expected_tags"]))
    if kind in _LIMITS:
        limit = next(context[name] for name in ("ge", "gt", "le", "lt") if name in context)
        expected = f"{_LIMITS[kind]} {limit:g} is expected"
    elif kind in {"literal_error", "enum"}:
        hint = "; the batch script itself is named by `batch`" if path[-1:] == ("script",) else ""
        return _choice("", _shown(spot, path), str(context["expected"])) + hint
    elif kind == "too_short":
        expected = "a list with something in it is expected"
    else:
        expected = _EXPECTED.get(kind) or f"{item['msg'][0].lower()}{item['msg'][1:]}"
    value = _shown(spot, path)
    return f"{expected}, not {value}" if value else expected


def unknown_key(key: str, path: tuple[Any, ...], top: type[BaseModel] = Config) -> str:
    """What to say of a key that does not exist at this path: what a word of another tool means here, the nearest key
    there, or where a key of that name is."""
    here = shape.at(path, top)
    if Chain in shape.sections(here) and (meaning := meant(key)):
        return f"is not a known key; {meaning}"
    known = shape.keys(here)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if near:
        return f"is not a known key; did you mean `{near[0]}`?"
    elsewhere = list(shape.places(key, top))
    inside = [p for p in elsewhere if _under(p, path)]
    if inside or elsewhere:
        best = min(inside or elsewhere, key=len)
        named = [str(part).partition(STAND_IN)[0] for part in path]
        own = [named[i] if word == "NAME" and i < len(path) else word for i, word in enumerate(best)]
        return f"is not a known key here; did you mean `{'.'.join(own)}`?"
    return f"is not a known key; there are {', '.join(known)}" if known else "is not a known key"


def _under(place: tuple[str, ...], path: tuple[Any, ...]) -> bool:
    return len(place) > len(path) and all(a in {b, "NAME"} for a, b in zip(place, path, strict=False))


def _choice(what: str, value: str, expected: str) -> str:
    names = re.findall(r"'([^']*)'", expected)
    said = f"{what + ': ' if what else ''}{_either(names)} is expected"
    if value:
        said += f", not {value}"
    near = difflib.get_close_matches(value.strip("'\""), names, n=1, cutoff=0.6)
    return f"{said}; did you mean `{near[0]}`?" if near else said


def _either(names: Iterable[str]) -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} or {last}" if most else last


def _shown(spot: Tree, path: tuple[Any, ...]) -> str:
    """The value as it was written, in short; nothing where it may be a secret."""
    if path and path[0] in _SECRET:
        return ""
    if isinstance(spot.value, dict):
        return "keys and values"
    if isinstance(spot.value, list):
        return "a list"
    text = repr(spot.value) if isinstance(spot.value, str) or spot.word is None else spot.word or "nothing"
    return text if len(text) <= 60 else text[:57] + "…'"
