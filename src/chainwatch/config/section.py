"""What every section of a configuration has in common."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema


class Section(BaseModel):
    """Every section refuses keys that it does not know, is frozen once read, and shows no input in its errors.

    The last because somebody will paste a webhook's URL where the name of its file belongs.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    shorthand: ClassVar[str | None] = None
    """The key that a bare value stands for, where most people need just that one."""

    @model_validator(mode="before")
    @classmethod
    def _bare_value(cls, value: Any) -> Any:
        if cls.shorthand is None or value is None or isinstance(value, (dict, BaseModel)):
            return value
        return {cls.shorthand: value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        if cls.shorthand is None:
            return schema
        whole = handler.resolve_ref_schema(schema)
        bare = {k: v for k, v in whole["properties"][cls.shorthand].items() if k not in {"default", "title"}}
        section = dict(whole)
        whole.clear()
        whole.update({"description": section.pop("description", ""), "anyOf": [bare, section]})
        return schema
