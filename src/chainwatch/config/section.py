"""What every section of a configuration has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Every section refuses keys that it does not know, is frozen once read, and shows no input in its errors.

    The last because somebody will paste a webhook's URL where the name of its file belongs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)
