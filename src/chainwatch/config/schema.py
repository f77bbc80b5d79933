"""The JSON Schema of a configuration file, for editors: the models, and the keys that `load` works in before them."""

from __future__ import annotations

import json
import re
from typing import Any

from chainwatch.config.models import Config

_PARTIAL = ("Chain", "Checkpoints", "Mark", "MarkerFile")
"""Sections whose required keys may come from `defaults`, so that a part of them is right in a file."""
_ABOUT = ("title", "description", "default")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one configuration file, `defaults` and `each` included."""
    whole = Config.model_json_schema()
    parts = whole["$defs"]
    for name in _PARTIAL:
        for section in (parts[name], *parts[name].get("anyOf", ())):
            section.pop("required", None)
    for name in _reached(parts, "Chain"):
        for section in (parts[name], *parts[name].get("anyOf", ())):
            for key, value in section.get("properties", {}).items():
                section["properties"][key] = _or_placeholder(value, parts)
    chain = parts["Chain"]
    defaults = {**chain, "properties": dict(chain["properties"]), "title": "Defaults"}
    defaults["description"] = "What every chain of this file has, unless it says otherwise."
    parts["Defaults"] = defaults
    chain["properties"]["each"] = {
        "title": "Each",
        "description": "Makes one chain of every combination (`matrix`) or row (`csv`); `{key}` is filled in everywhere.",
        "oneOf": [
            {
                "type": "object",
                "properties": {"matrix": {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}}},
                "required": ["matrix"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"csv": {"type": "string"}},
                "required": ["csv"],
                "additionalProperties": False,
            },
        ],
    }
    whole["properties"]["defaults"] = {"$ref": "#/$defs/Defaults"}
    whole["properties"]["chains"]["additionalProperties"] = {"anyOf": [{"$ref": "#/$defs/Chain"}, {"type": "null"}]}
    whole["properties"]["chains"]["propertyNames"] = {"pattern": r"^[A-Za-z0-9{][A-Za-z0-9._{}-]*$"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _reached(parts: dict[str, Any], name: str) -> list[str]:
    """The section and all sections below it."""
    found, todo = [], [name]
    while todo:
        here = todo.pop()
        if here not in found:
            found.append(here)
            todo += re.findall(r'"#/\$defs/(\w+)"', json.dumps(parts[here]))
    return found


def _or_placeholder(value: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """A sweep may fill in any value: `step: '{steps}'`."""
    if not _narrow(value, parts):
        return value
    about: dict[str, Any] = {key: one for key, one in value.items() if key in _ABOUT}
    rest = {key: one for key, one in value.items() if key not in _ABOUT}
    return {**about, "anyOf": [rest, {"type": "string", "pattern": r"\{\w+\}"}]}


def _narrow(value: dict[str, Any], parts: dict[str, Any]) -> bool:
    """A plain text may not satisfy it."""
    if "$ref" in value:
        return "enum" in parts[value["$ref"].rpartition("/")[2]]
    inner = any(_narrow(one, parts) for one in value.get("anyOf", ()))
    return (
        inner
        or value.get("type") in {"integer", "number", "boolean"}
        or bool({"enum", "const", "pattern"} & set(value))
    )
