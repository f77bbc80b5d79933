"""Which keys the configuration has, and of what kind: walked along the models, for errors and for relative paths."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chainwatch.config.models import Chain, Config
from chainwatch.config.section import Section

EXTRA = {Chain: ("each",), Config: ("defaults",)}
"""Keys of a file that are worked in before the models see it."""


@cache
def _parts(annotation: Any) -> tuple[Any, ...]:
    """The plain types that an annotation is made of: unions opened, `Annotated` stripped."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _parts(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(part for inner in typing.get_args(annotation) for part in _parts(inner))
    return (annotation,)


def sections(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The sections that a value of this annotation may be."""
    return tuple(part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, BaseModel))


def is_path(annotation: Any) -> bool:
    """A value of this annotation may be a path."""
    return Path in _parts(annotation)


def below(annotation: Any, part: Any) -> Any:
    """The annotation of the value under the key or index `part`; None where there is none."""
    for kind in _parts(annotation):
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, field in kind.model_fields.items():
                if part == (field.alias or name):
                    return field.rebuild_annotation()
        elif origin is dict and isinstance(part, str):
            return arguments[1]
        elif origin in (tuple, list) and isinstance(part, int):
            return arguments[0]
    return None


def at(path: tuple[Any, ...], top: Any = Config) -> Any:
    """The annotation at a path; parts that no section has (the tag of a union) are passed over."""
    for part in path:
        top = below(top, part) or top
    return top


def keys(annotation: Any) -> list[str]:
    """The keys of the section (or sections) that a value of this annotation may be."""
    found: list[str] = []
    for model in sections(annotation):
        found += [field.alias or name for name, field in model.model_fields.items()]
        found += EXTRA.get(model, ())
    return list(dict.fromkeys(found))


def places(key: str, annotation: Any = Config, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of the configuration that ends in this key; `NAME` stands for a name of the user's choice."""
    for model in sections(annotation):
        for name, field in model.model_fields.items():
            inner = field.rebuild_annotation()
            here = (*path, field.alias or name)
            if here[-1] == key:
                yield here
            named = [typing.get_args(p)[1] for p in _parts(inner) if typing.get_origin(p) is dict]
            for value, where in ((inner, here), *((v, (*here, "NAME")) for v in named)):
                yield from places(key, value, where)


def shorthand(annotation: Any) -> str | None:
    """The key that a section takes a bare value for: `checkpoints: runs/a` means `checkpoints: {directory: runs/a}`."""
    for model in sections(annotation):
        if issubclass(model, Section) and model.shorthand:
            return model.shorthand
    return None
