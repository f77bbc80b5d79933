"""The OpenAPI document of the API, made from its models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from chainwatch import __version__
from chainwatch.web.api import AlertOut, ChainDetail, ChainOut, Granted, Health, Problem
from chainwatch.web.buttons import Action

_MODELS: tuple[type[BaseModel], ...] = (ChainOut, ChainDetail, AlertOut, Granted, Health, Problem)


def document(*, actions: bool = False) -> dict[str, Any]:
    """OpenAPI 3.1; with the actions where they are switched on."""
    _, definitions = models_json_schema(
        [(model, "serialization") for model in _MODELS], ref_template="#/components/schemas/{model}"
    )
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    last = {
        "name": "last",
        "in": "query",
        "required": False,
        "description": "How many newest attempts and decisions.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    }
    pressing = {"/api/v1/chains/{name}/{action}": {"post": _action(name)}} if actions else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "chainwatch", "version": __version__, "description": "The chains, as the page shows them."},
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/healthz": {"get": _operation("The loop is alive", _ref("Health"), failing=_ref("Health"))},
            "/readyz": {"get": _operation("Polls are fresh", _ref("Health"), failing=_ref("Health"))},
            "/api/v1/chains": {"get": _operation("All chains, by name", _list("ChainOut"))},
            "/api/v1/chains/{name}": {
                "get": _operation("One chain with its history", _ref("ChainDetail"), parameters=[name, last])
            },
            "/api/v1/alerts": {"get": _operation("Open alerts, oldest first", _list("AlertOut"))},
            **pressing,
        },
    }


def _operation(
    summary: str,
    good: dict[str, Any],
    *,
    failing: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    answers = {"200": _answer("The answer", good), "401": _answer("The token is missing", _ref("Problem"))}
    if failing is not None:
        answers["503"] = _answer("It is not", failing)
    if parameters:
        answers["400"] = _answer("A parameter is wrong", _ref("Problem"))
        answers["404"] = _answer("There is no such chain", _ref("Problem"))
    return {"summary": summary, "parameters": parameters or [], "responses": answers}


def _action(name: dict[str, Any]) -> dict[str, Any]:
    action = {"name": "action", "in": "path", "required": True, "schema": {"type": "string", "enum": list(Action)}}
    span = {"type": "string", "description": "How long to pause, as 4h. Without it: until it is resumed."}
    body = {"type": "object", "properties": {"for": span}, "additionalProperties": {"type": "string"}}
    operation = _operation("Ask for something; needs the token", _ref("Granted"), parameters=[name, action])
    operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": body}}}
    operation["security"] = [{"token": []}]
    operation["responses"] |= {
        "403": _answer("The token is missing", _ref("Problem")),
        "409": _answer("It makes no sense for this chain", _ref("Problem")),
    }
    return operation


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ref(model: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model}"}


def _list(model: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(model)}
