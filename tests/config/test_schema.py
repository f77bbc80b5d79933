"""The JSON Schema for editors, and the models that it comes from."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from chainwatch.config import Config, schema, shape

SCHEMA = schema()


def accepts(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text)))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "chains: {a: {batch: x}}",
        "defaults: {batch: x, checkpoints: {format: npz}}\nchains: {a: , b: {checkpoints: ck}}",
        "chains: {a: {batch: x, resubmitter: site, recovery: false, done: {mark: x, file: {path: y}}}}",
        "chains: {'r-{lr}': {batch: x, args: [--lr, '{lr}', 5], each: {matrix: {lr: [0.1, 0.2]}}}}",
        "chains: {a: {batch: x, args: --lr 5, each: {csv: runs.csv}}}",
        "alerts: {channels: {a: {type: slack, url_env: X}}}",
        "poll: 1h30m",
    ],
)
def test_an_editor_takes_what_load_takes(text: str) -> None:
    assert accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "chain: {}",
        "chains: {a: {batch: x, retries: 3}}",
        "chains: {a: {batch: x, mode: akt}}",
        "chains: {'a b': {batch: x}}",
        "defaults: {recovery: {retrys: 1}}",
        "chains: {a: {batch: x, each: {matrix: {}, csv: x}}}",
        "poll: 30",
        "alerts: {channels: {a: {type: slak}}}",
    ],
)
def test_an_editor_marks_what_load_refuses(text: str) -> None:
    assert not accepts(text)


def every_field() -> list[tuple[str, Any]]:
    found, todo, seen = [], [Config], {Config}
    while todo:
        model = todo.pop()
        for name, field in model.model_fields.items():
            found.append((f"{model.__name__}.{name}", field))
            for annotation in (field.annotation, shape.below(field.annotation, "x"), shape.below(field.annotation, 0)):
                for inner in shape.sections(annotation):
                    if inner not in seen:
                        seen.add(inner)
                        todo.append(inner)
    return found


def test_every_key_says_what_it_is_for() -> None:
    silent = [where for where, field in every_field() if not field.description and not where.endswith(".type")]
    assert silent == []
    assert len(every_field()) > 100
