"""The JSON Schema of a configuration file, for editors: the models, and the keys that `load` works in before them."""

from __future__ import annotations

from typing import Any

from chainwatch.config.models import Config

_PARTIAL = ("Chain", "Checkpoints", "Mark", "MarkerFile")
"""Sections whose required keys may come from `defaults`, so that a part of them is right in a file."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one configuration file, `defaults` and `each` included."""
    whole = Config.model_json_schema()
    parts = whole["$defs"]
    for name in _PARTIAL:
        for section in (parts[name], *parts[name].get("anyOf", ())):
            section.pop("required", None)
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
