"""The house's frozen dataclasses to JSON and back.

Strings go through as they are, lone surrogates included (a path or a log line that is not UTF-8 keeps its bytes; keys
of mappings are our own words), and so do `nan` and `inf` (a loss may be either). A field that was added later takes its
default when an older document is read; a field that an older program does not know is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from chainwatch.model.chain import Decision
from chainwatch.store.errors import StoreError

T = TypeVar("T")


@cache
def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    return _adapter_of(kind)  # untyped on the way: the cache cannot say that types are hashable


def dumps(value: Any) -> str:
    """Canonical JSON of plain values: the same value always gives the same text (ASCII)."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def encode(kind: type[T], value: T) -> Any:
    """`value` of the dataclass `kind` as plain JSON values."""
    return _adapter(kind).dump_python(value, mode="json")


def decode(kind: type[T], document: Any) -> T:
    """The `kind` that `encode` wrote; a document that does not fit is a StoreError, never half an object."""
    try:
        result: T = _adapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"a remembered {kind.__name__} cannot be read ({path}: {first['msg']}): the database was changed by hand, "
            "or by another version of chainwatch; restore a backup or install that version"
        ) from None
    return result


def checked(kind: Any, value: Any) -> Any:
    """`value` if it is of the annotated type `kind` already (nothing is converted); ValueError otherwise."""
    return _adapter(kind).validate_python(value, strict=True)


_DECISIONS: Mapping[str, type[Any]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in get_args(Decision)
}
_KINDS = {kind: name for name, kind in _DECISIONS.items()}


def decision_kind(decision: Decision) -> str:
    """`resubmit`, `leave_alone`, …: the word that stands for the decision in the database and in JSON output."""
    return _KINDS[type(decision)]


def decision_class(kind: str) -> type[Any]:
    """The dataclass behind the word that `decision_kind` gave."""
    try:
        return _DECISIONS[kind]
    except KeyError:
        raise StoreError(f"a remembered decision of the unknown kind {kind!r}: install a newer chainwatch") from None
