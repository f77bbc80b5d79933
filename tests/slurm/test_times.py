"""Times, durations, and the words in their place."""

from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.slurm.times import parse_duration, parse_minutes, parse_time, parse_time_limit


def test_an_epoch_is_an_aware_time_in_utc() -> None:
    assert parse_time("1795973127") == datetime(2026, 11, 29, 17, 25, 27, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "Unknown", "None", "N/A", "NONE", "NOT_SET", "UNLIMITED", "INFINITE", "0", "4294967294", "4294967295",
     "Tomorr 10:00", "Ystday 10:00", "########", "invalid"],
)  # fmt: skip
def test_every_word_in_place_of_a_time_is_no_time(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("29:29", 29 * 60 + 29),
        ("4:59", 4 * 60 + 59),
        ("5:00", 300),
        ("0:00", 0),
        ("06:02:30", 6 * 3600 + 150),
        ("2-17:56:34", 2 * 86400 + 17 * 3600 + 56 * 60 + 34),
        ("8371-10:29:20", 8371 * 86400 + 10 * 3600 + 29 * 60 + 20),
        ("14-00:00:00", 14 * 86400),
        ("00:00.042", 0.042),
        ("22:53.824", 22 * 60 + 53.824),
        ("3-0:00", 3 * 86400),
    ],
)
def test_printed_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", "N/A", "INFINITE", "", "a:b"])
def test_every_word_in_place_of_a_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("30", timedelta(minutes=30)),
        ("30:00", timedelta(minutes=30)),
        ("12:00:00", timedelta(hours=12)),
        ("2-12", timedelta(days=2, hours=12)),
        ("2-12:30", timedelta(days=2, hours=12, minutes=30)),
        ("2-12:00:00", timedelta(days=2, hours=12)),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_as_people_write_them(text: str, limit: timedelta | None) -> None:
    assert parse_time_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "limit"), [("30", timedelta(minutes=30)), ("UNLIMITED", None), ("Partition_Limit", None), ("", None)]
)
def test_accountings_time_limit_is_in_minutes(text: str, limit: timedelta | None) -> None:
    assert parse_minutes(text) == limit
