"""What a user may write under `alerts:`."""

from __future__ import annotations

from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chainwatch.config.alerts import Alerts, Email, Slack
from chainwatch.config.models import Config
from chainwatch.config.secrets import SecretUnusable, read_secret

SECRET = "https://hooks.example.org/services/T0/B0/verysecret"


def problems(alerts: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"alerts": alerts})
    return str(caught.value)


def test_a_minimal_slack_channel_needs_two_lines() -> None:
    alerts = Alerts.model_validate({"channels": {"team": {"type": "slack", "url_env": "HOOK"}}})
    assert isinstance(alerts.channels["team"], Slack)
    assert alerts.channels["team"].at_once == ("done", "first_recovery")


@pytest.mark.parametrize("kind", ["slack", "mattermost", "json", "apprise"])
def test_a_url_in_the_configuration_is_refused_and_the_refusal_does_not_repeat_it(kind: str) -> None:
    said = problems({"channels": {"team": {"type": kind, "url": SECRET}}})
    assert "url_file" in said
    assert "verysecret" not in said


def test_a_secret_under_a_wrong_key_is_refused_without_being_repeated() -> None:
    assert "verysecret" not in problems({"channels": {"team": {"type": "slack", "hook": SECRET, "url_env": "A"}}})
    assert "verysecret" not in problems({"channels": {"team": SECRET}})
    assert "verysecret" not in problems({"channels": {"mail": {"type": "email", "to": "a@b", "password": SECRET}}})


def test_each_secret_is_named_exactly_once() -> None:
    assert "exactly one" in problems({"channels": {"team": {"type": "slack"}}})
    assert "exactly one" in problems({"channels": {"team": {"type": "slack", "url_env": "A", "url_file": "/b"}}})
    assert "exactly one" in problems({"channels": {"mail": {"type": "email", "to": "a@b", "user": "me"}}})


def test_a_password_is_never_sent_in_the_clear() -> None:
    mail = {"type": "email", "to": "a@b", "smtp": "mx", "user": "me", "password_env": "P", "tls": "none"}
    assert "in the clear" in problems({"channels": {"mail": mail}})


@pytest.mark.parametrize("address", ["-oQ/tmp/x@y", "a@b\nBcc: c@d", "a@b,c@d", "a@@b"])
def test_an_address_cannot_smuggle_options_or_headers(address: str) -> None:
    problems({"channels": {"mail": {"type": "email", "to": address}}})


def test_a_local_user_is_an_address_too() -> None:
    channel = Alerts.model_validate({"channels": {"mail": {"type": "email", "to": "root"}}}).channels["mail"]
    assert isinstance(channel, Email)
    assert channel.to == ("root",)


def test_times_of_day_survive_the_base_60_of_yaml() -> None:
    mute = Alerts.model_validate({"mute": [{"from": 22 * 60, "to": "7:00"}]}).mute[0]
    assert (mute.start, mute.end) == (time(22), time(7))
    assert mute.model_dump(mode="json")["from"] == "22:00"
    assert Alerts.model_validate({"digest": "never"}).digest == "never"
    assert "time of day" in problems({"digest": "25:00"})


@pytest.mark.parametrize(
    "window",
    [
        {},
        {"from": "22:00"},
        {"from": "22:00", "to": "07:00", "since": "2026-01-01T00:00:00Z"},
        {"days": ["sat"], "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"},
    ],
)
def test_a_mute_window_has_one_kind_of_ends(window: dict[str, Any]) -> None:
    problems({"mute": [window]})


def test_reminders_cannot_be_a_flood() -> None:
    assert "flood" in problems({"reminders": ["1m"]})
    assert Alerts.model_validate({"reminders": ["1h"]}).reminders == (timedelta(hours=1),)


def test_an_unknown_time_zone_is_refused() -> None:
    assert "Europe/Berlin" in problems({"timezone": "Mars/Olympus"})
    assert "Europe/Berlin" in problems({"timezone": "../../etc/passwd"})


def test_a_secret_is_read_from_a_file_that_only_the_owner_can_read(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(SECRET + "\n")
    file.chmod(0o640)
    with pytest.raises(SecretUnusable, match="chmod 600") as caught:
        read_secret(file, None, "the url")
    assert "verysecret" not in str(caught.value)
    file.chmod(0o600)
    assert read_secret(file, None, "the url") == SECRET


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_an_empty_or_binary_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "url"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(SecretUnusable, match="the url"):
        read_secret(file, None, "the url")


def test_a_missing_secret_says_where_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretUnusable, match=r"gone.*No such file"):
        read_secret(tmp_path / "gone", None, "the url")
    with pytest.raises(SecretUnusable, match="Is a directory"):
        read_secret(tmp_path, None, "the url")
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(SecretUnusable, match="HOOK is not set"):
        read_secret(None, "HOOK", "the url")
