from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.config.values import expand_path
from chainwatch.model.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("1w", 604800), ("1.5h", 5400), ("500ms", 0.5),
        ("1h 30m", 5400), (" 5 S ", 5), ("0", 0), (0, 0), ("0s", 0), (timedelta(seconds=3), 3),
    ],
)  # fmt: skip
def test_a_duration_is_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "30", 30, 1.5, True, False, None, "s", "-5s", "5 parsecs", "1h-5m", "10min", [], "9" * 400 + "w", "37000d"],
)
def test_a_duration_without_a_unit_or_sense_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, 10**12).map(lambda ms: timedelta(milliseconds=ms)))
def test_a_duration_that_is_shown_is_read_back(value: timedelta) -> None:
    assert parse_duration(show_duration(value)) == value


def test_a_duration_is_shown_as_people_write_it() -> None:
    shown = [show_duration(timedelta(seconds=s)) for s in (0, 0.5, 90, 5400, 86400, 1.5)]
    assert shown == ["0s", "500ms", "1m30s", "1h30m", "1d", "1s500ms"]


def test_variables_and_home_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("RUN", "r$1")
    assert expand_path("~/x/$RUN/${RUN}y/%j/*") == "/home/me/x/r$1/r$1y/%j/*", "what a variable holds is not expanded"
    assert expand_path("a~b") == "a~b"


@pytest.mark.parametrize(
    "text", ["", "  ", "$NO_SUCH_VARIABLE", "${NO_SUCH_VARIABLE}/x", "~nosuchuser", "a\0b", "s3://b/x"]
)
def test_a_path_that_would_lead_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expand_path(text)
