"""Whatever the house's types can hold goes through JSON unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainwatch.model.chain import Attempt, Decision, ExcludedNode
from chainwatch.model.checkpoint import Status
from chainwatch.model.job import Job
from chainwatch.model.verdict import Evidence, Verdict
from chainwatch.store import StoreError
from chainwatch.store.codec import decision_class, decision_kind, decode, dumps, encode
from chainwatch.store.records import ChainRecord, Intent, Lease, Move, Notice

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates and NUL too
KEYS = st.text(max_size=8)  # our own words, never bytes from outside
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
st.register_type_strategy(str, TEXT)
st.register_type_strategy(datetime, st.datetimes(timezones=st.just(UTC)))
st.register_type_strategy(Mapping, lambda kind: st.dictionaries(KEYS, st.from_type(get_args(kind)[1]), max_size=3))
st.register_type_strategy(timedelta, st.timedeltas(timedelta(0), timedelta(days=9999)))
st.register_type_strategy(Status, st.sampled_from(list(Status)))


def values_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any instance, with JSON where a field is an open mapping (which the types leave open)."""
    open_mappings = {name for name, hint in get_type_hints(kind).items() if hint == Mapping[str, Any]}
    names = {f.name for f in fields(kind)}
    return st.builds(kind, **{name: st.dictionaries(KEYS, JSON_VALUES, max_size=3) for name in open_mappings & names})


KINDS = [Attempt, ChainRecord, Evidence, ExcludedNode, Intent, Job, Lease, Move, Notice, Verdict, *get_args(Decision)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_value_comes_back_from_json_as_it_was(kind: type[Any], data: st.DataObject) -> None:
    value = data.draw(values_of(kind))
    text = dumps(encode(kind, value))
    back = decode(kind, json.loads(text))
    assert dumps(encode(kind, back)) == text
    assert back == value or "nan" in repr(value)
    assert text.isascii()


def test_each_decision_has_its_own_word() -> None:
    words = {kind: decision_kind(_blank(kind)) for kind in get_args(Decision)}
    assert words[get_args(Decision)[0]] == "leave_alone"
    assert len(set(words.values())) == len(words)
    assert all(decision_class(word) is kind for kind, word in words.items())


def _blank(kind: type[Any]) -> Any:
    return object.__new__(kind)


def test_a_document_of_an_older_program_takes_defaults_and_of_a_newer_one_loses_only_the_unknown() -> None:
    node = {"node": "n", "why": "w", "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
    assert decode(ExcludedNode, node | {"colour": "red"}) == decode(ExcludedNode, node)
    assert decode(ExcludedNode, node).chain is None


def test_a_document_that_does_not_fit_is_an_error_that_names_the_place() -> None:
    with pytest.raises(StoreError, match=r"remembered ExcludedNode cannot be read \(since: "):
        decode(ExcludedNode, {"node": "n", "why": "w", "since": "soon", "until": "2026-01-02T00:00:00Z"})
    with pytest.raises(StoreError, match="unknown kind 'dance'"):
        decision_class("dance")
