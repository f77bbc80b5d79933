"""The kind: the words of a library, in place of what is expected, not what was written, and where."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from chainwatch.config import shape
from chainwatch.config.alerts import Alerts
from chainwatch.config.explain import in_words
from chainwatch.config.models import Chain, Config
from chainwatch.config.site import Site
from tests.config.writing import Desk

ODD = ([], ["x"], [1], [[]], {}, {"x": 1}, 5, -1, 10**12, 1.5, "x", "", "\n", "x" * 5000, True, False, None)
RAW = re.compile(r"\binput\b|should (be|have)|unable to|valid (string|integer|dict)|^Value error", re.IGNORECASE)


def places(annotation: Any, path: tuple[str, ...] = (), depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Every path where something may be written; a name of the user's choice is `own`."""
    for model in shape.sections(annotation) if depth < 6 else ():
        for name, field in model.model_fields.items():
            inner = field.rebuild_annotation()
            here = (*path, field.alias or name)
            yield here
            yield from places(inner, here, depth + 1)
            for part in shape._parts(inner):
                if typing.get_origin(part) is dict:
                    yield (*here, "own")
                    yield from places(typing.get_args(part)[1], (*here, "own"), depth + 1)


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return typing.cast(dict[str, Any], value)


def said(top: type[BaseModel], path: tuple[str, ...], value: Any) -> list[str]:
    whole = nested(path, value)
    try:
        top.model_validate(whole)
    except ValidationError as error:
        return [in_words(error, whole, top)]
    return []


@pytest.mark.parametrize("top", [Config, Chain, Alerts, Site])
def test_whatever_stands_wherever_is_answered_in_words_of_our_own(top: type[BaseModel]) -> None:
    paths = sorted(set(places(top)))
    assert len(paths) > 5
    raw = {
        (".".join(path), message)
        for path in paths
        for value in ODD
        for message in said(top, path, value)
        if RAW.search(message)
    }
    assert raw == set()


def test_settings_that_stand_in_no_file_are_answered_with_their_keys() -> None:
    settings = {"batch": "/x", "mode": "akt", "done": {"step": "ten"}}
    with pytest.raises(ValidationError) as error:
        Chain.stored(settings)
    assert in_words(error.value, settings, Chain) == (
        "done.step: a whole number is expected, not 'ten'; "
        "mode: `observe` or `act` is expected, not 'akt'; did you mean `act`?"
    )


def test_what_may_be_one_thing_or_another_is_said_in_one_clause(desk: Desk) -> None:
    said = "1: alerts.digest: a time of day like 09:00 or 22:30 or `never` is expected"
    assert desk.problems("alerts: {digest: [1]}\n") == desk.problems("alerts: {digest: soon}\n") == [said]
